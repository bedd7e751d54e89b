-- The fence of run `a` (worker, job, run), as a join: no row if it holds its lease no more. Locked, so that no rescue takes
-- the run away before what it writes is committed.
cross join lateral (
     select from {schema}.lease
      where worker = a.worker and job = a.job and run = a.run
        for no key update) l
