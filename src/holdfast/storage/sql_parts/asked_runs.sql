-- The arrays with which settle and complete are asked: one element for each run, in ascending order of runs, so that the
-- place of a run is found by halving. As text, which `arrays.py` writes: a list costs psycopg far more.
%(workers)s::text::bigint[] as workers, %(jobs)s::text::bigint[] as jobs, %(runs)s::text::bigint[] as runs
