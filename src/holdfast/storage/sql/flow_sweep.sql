-- Write the wake-ups that are missing: for open calls whose child or whose flow has ended, and for flows that wait for an
-- event that is there. Only one race leaves them missing: that of a flow which waits for a job that it did
-- not begin itself. Looks at up to %(limit)s calls from %(child)s on, and as many waits from %(key)s on.
-- Locks nothing; leans on checkpoint_child and wait_key. Answers where the next look begins: NULL, all was looked at.
with calls as materialized (
  select child, job
    from {schema}.checkpoint
   where child is not null and not is_done and child >= %(child)s::bigint
   order by child
   limit %(limit)s::int
), waits as materialized (
  select key
    from {schema}.wait
   where key is not null and key >= %(key)s::text
   order by key
   limit %(limit)s::int
), missing as (
  insert into {schema}.wakeup (job, child, key)
  select c.job, c.child, null
    from calls c
   where exists (select from {schema}.ledger f where f.job = c.child and f.is_final offset 0)
  union all
  select distinct c.job, null::bigint, null
    from calls c
   where exists (select from {schema}.ledger f where f.job = c.job and f.is_final offset 0)
  union all
  select distinct null::bigint, null::bigint, w.key
    from waits w
   where exists (select from {schema}.event e where e.key = w.key offset 0)
  returning id
)
select (select count(*) from missing)::int as missing,
       (select max(child) from calls having count(*) >= %(limit)s::int) as child,
       (select max(key) from waits having count(*) >= %(limit)s::int) as key
