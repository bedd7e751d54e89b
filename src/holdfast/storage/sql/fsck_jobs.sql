-- Look at up to %(limit)s jobs behind %(after)s, by their ids: one that has not ended must be in exactly one place, and hold its
-- unique key, unless a newer, debounced job took it over. What is seen of a job that moves while a segment of ready is truncated may be wrong, since no snapshot remembers
-- truncated rows: whoever asks looks again.
-- Locks nothing; leans on the primary keys of job and ledger, and of each place but lease, which is read once.
-- is_final is compared as a number, here and in all of fsck, so that the planner does not choose the partial index on it.
-- Always answers a row: how many were looked at, and the last of them.
with range as materialized (
  select id, queue, unique_key
    from {schema}.job
   where id > %(after)s::bigint
   order by id
   limit %(limit)s::int
), active as materialized (
  select id, queue, unique_key
    from range r
   where not exists (select from {schema}.ledger l where l.job = r.id and l.is_final::int = 1 offset 0)
), running as materialized (
  select job, count(*) as leases
    from {schema}.lease
   where job > %(after)s::bigint and job <= (select max(id) from range)
   group by job
), placed as materialized (
  select a.id, a.queue, a.unique_key,
         coalesce(l.leases, 0)
         + (select count(*) from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as p (priority)
             cross join lateral (
               select from {schema}.ready r where r.queue = a.queue and r.priority = p.priority and r.job = a.id offset 0) r)
         + (select count(*) from {schema}.scheduled s where s.job = a.id)
         + (select count(*) from {schema}.waiting w where w.job = a.id) as places
    from active a
    left join running l on l.job = a.id
), found as (
  select id as job, case when places = 0 then 'lost' else 'in_two_places' end as damage
    from placed
   where places <> 1
  union all
  select id, 'key_not_held'
    from placed p
   where unique_key is not null
     and not exists (
           select from {schema}.unique_key k where k.queue = p.queue and k.key = p.unique_key and k.job = p.id offset 0)
     and not exists (select from {schema}.superseded s where s.job = p.id offset 0)
)
select f.job, f.damage, seen.looked, seen.last
  from (select count(*)::int as looked, max(id) as last from range) seen
  left join found f on true
 order by f.job
