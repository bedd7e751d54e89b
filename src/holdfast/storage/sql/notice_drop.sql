-- Delete notices whose hooks were called. Locks them in the order in which they are taken. Answers their runs.
with told as materialized (
  select n.kind, n.job, n.run
    from unnest(%(kinds)s::text[], %(jobs)s::bigint[], %(runs)s::bigint[]) as t (kind, job, run)
    join {schema}.notice n using (kind, job, run)
   order by n.kind, n.job, n.run
     for update of n
)
delete from {schema}.notice n using told t where n.kind = t.kind and n.job = t.job and n.run = t.run
returning n.run
