-- The ring has its one row: without it no job can be enqueued.
-- Locks nothing. Always answers a row.
select null::bigint as job, case when count(*) = 0 then 'no_ring' end as damage, count(*)::int as looked, null::bigint as last
  from {schema}.ring
