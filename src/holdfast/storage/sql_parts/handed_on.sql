-- What becomes of the permits of the runs in {of} (worker, job, run, priority, limits, limit_keys, kept, verdict), which have ended, but for the first
-- `kept` of each. Where the limit is direct, they go to the next jobs of their key, found behind the ended one (from the front
-- with %(front)s, for those that came back or are more urgent); with nobody there, a lane that nobody was told to wait for is
-- deleted. All others are given back with a knock. Limits that have a breaker are told whether runs succeeded (verdict 1), and how many
-- have failed (-1) after the last success.
-- Locks rows of the gate and lanes, skipping locked ones: it never waits. In a stricter isolation level than read committed, where a
-- row that another transaction took would be an error, it only knocks.
, left_by as materialized (
  select u.limit_name, u.key, count(*)::int as given, min(u.priority) as priority, min(u.job) as job
    from (select limits[1] as limit_name, coalesce(limit_keys[1], '') as key, priority, job from {of}
           where limits[1] is not null and kept < 1
          union all
          select limits[2], coalesce(limit_keys[2], ''), priority, job from {of}
           where limits[2] is not null and kept < 2) u
   group by 1, 2
), direct as materialized (
  select case when current_setting('transaction_isolation') in ('read committed', 'read uncommitted')
              then array(select name from {schema}.limit_rule
                          where name = any(array(select distinct limit_name from left_by)) and is_direct and removed_at is null)
              else '{}' end as names
), me as materialized (
  select queues, kinds from {schema}.worker
   where id = (select min(worker) from {of}) and lost_at is null and coalesce(activity, 'working') = 'working'
), {part paused_queues}, heirs as materialized (
  select g.place
    from direct d, left_by l
   cross join lateral (
     select g.ctid as place from {schema}.ready_gated g
      where g.limit_name = l.limit_name and g.limit_key = l.key
        and (g.priority, g.job) > (case when %(front)s::boolean then '-1'::smallint else l.priority end,
                                   case when %(front)s::boolean then 0 else l.job end)
        and {part served_at_gate}
      order by g.priority, g.job
      limit l.given
        for update skip locked) g
   where l.limit_name = any(d.names)
), out_of_gate as (
  delete from {schema}.ready_gated where ctid = any(array(select place from heirs))
  returning queue, priority, job, kind, attempt, deadline_at, limit_name, limit_key, next_limit, next_key
), passed as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at, limit_name, limit_key)
  select queue, priority, job,
         case when next_limit is null then (select current from {schema}.ring order by version desc limit 1) else 8 end,
         kind, attempt, clock.now, deadline_at, next_limit, next_key
    from clock, out_of_gate
  on conflict do nothing
  returning queue, priority, job, segment, limit_name, limit_key
), over as materialized (
  select u.limit_name, u.key, sum(u.given)::int as given, u.limit_name = any(d.names) as is_direct
    from direct d,
         (select limit_name, key, given from left_by
          union all select limit_name, limit_key, -1 from out_of_gate) u
   group by 1, 2, 4
  having sum(u.given) > 0
), idle as materialized (
  select l.place
    from over o
   cross join lateral (
     select ctid as place from {schema}.lane
      where limit_name = o.limit_name and key = o.key and held = o.given and not awaited
        for update skip locked) l
   where o.is_direct
), emptied as (
  delete from {schema}.lane where ctid = any(array(select place from idle)) returning limit_name, key
), breaking as materialized (
  select array(select name from {schema}.limit_rule
                where name = any(array(select distinct unnest(limits) from {of} where limits is not null))
                  and breaker is not null and removed_at is null) as names
), judged as materialized (
  select u.name as limit_name, coalesce(u.key, '') as key, o.run, o.verdict,
         max(o.run) filter (where o.verdict > 0) over (partition by u.name, u.key) as last_success
    from breaking b, {of} o
   cross join lateral unnest(o.limits, o.limit_keys) as u (name, key)
   where o.limits is not null and o.verdict <> 0 and u.name = any(b.names)
), verdicts as materialized (
  select limit_name, key, bool_or(verdict > 0) as is_success,
         (count(*) filter (where verdict < 0 and run > coalesce(last_success, 0)))::int as failures
    from judged
   group by limit_name, key
), knocked as (
  insert into {schema}.knock (limit_name, key, given, priority, job, failures, is_success)
  select o.limit_name, o.key, o.given, null, null, v.failures, v.is_success
    from over o
    left join verdicts v using (limit_name, key)
   where (o.limit_name, o.key) not in (select limit_name, key from emptied)
  union all
  select limit_name, limit_key, 0, min(priority), min(job), null, null from passed where segment = 8 group by 1, 2
  union all
  select v.limit_name, v.key, 0, null, null, v.failures, v.is_success
    from verdicts v where (v.limit_name, v.key) not in (select limit_name, key from over)
  returning given
)
