-- The keys of limit %(limit)s that hold permits, at which jobs wait, or for which an operator has set something: by key, behind %(after)s,
-- up to %(most)s; or only %(key)s. Jobs that wait are counted up to %(cap)s for each key.
-- Steps from key to key along lane_pkey, ready_gated_lane and limit_key_pkey, however many jobs each has. Locks nothing.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), keys as (
  (select k.key, 1 as number
     from (select least(
             (select key from {schema}.lane where limit_name = %(limit)s::text and (%(after)s::text is null or key > %(after)s::text)
                 and key >= coalesce(%(key)s::text, '') order by key limit 1),
             (select limit_key from {schema}.ready_gated where limit_name = %(limit)s::text and (%(after)s::text is null or limit_key > %(after)s::text)
                 and limit_key >= coalesce(%(key)s::text, '') order by limit_key limit 1),
             (select key from {schema}.limit_key where limit_name = %(limit)s::text and (%(after)s::text is null or key > %(after)s::text)
                 and key >= coalesce(%(key)s::text, '') order by key limit 1)) as key) k
    where k.key is not null and (%(key)s::text is null or k.key = %(key)s::text))
  union all
  select n.key, k.number + 1
    from keys k
   cross join lateral (
     select least(
       (select key from {schema}.lane where limit_name = %(limit)s::text and key > k.key order by key limit 1),
       (select limit_key from {schema}.ready_gated where limit_name = %(limit)s::text and limit_key > k.key order by limit_key limit 1),
       (select key from {schema}.limit_key where limit_name = %(limit)s::text and key > k.key order by key limit 1)) as key) n
   where n.key is not null and k.number < %(most)s::int and %(key)s::text is null
)
select k.key, coalesce(l.held, 0)::int as held, w.jobs::int as waiting, clock.now - o.ready_at as oldest_wait,
       s.per_key, s.weight, s.closed_at, s.closed_until, s.closed_reason, l.open_until, coalesce(l.failures, 0) as failures, l.due_at, clock.now
  from clock, keys k
  left join lateral (
    select held, open_until, failures, due_at from {schema}.lane
     where limit_name = %(limit)s::text and key = k.key order by version desc limit 1) l on true
 cross join lateral (
    select count(*) as jobs
      from (select from {schema}.ready_gated where limit_name = %(limit)s::text and limit_key = k.key limit %(cap)s::int + 1) counted) w
  left join lateral (
    select min(ready_at) as ready_at
      from (select ready_at from {schema}.ready_gated
             where limit_name = %(limit)s::text and limit_key = k.key order by priority, job limit 1000) first) o on true
  left join {schema}.limit_key s on s.limit_name = %(limit)s::text and s.key = k.key
 order by k.key
