-- Limits that somebody should know of, by name: closed, set to nothing, stopped by their breaker, with keys that are; or stuck: for %(patience)s
-- a job has waited that a live worker serves, while no permit is held, no rate is used up, and nothing says until when.
-- Of the first 1,000 limits. Jobs that wait are counted up to %(cap)s, and those who are stuck sought among the first 1,000 by key.
-- Leans on limit_rule_pkey, lane_pkey, limit_key_pkey and ready_gated_lane. Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), me as materialized (
  select queues, kinds from {schema}.worker
   where lost_at is null and coalesce(activity, 'working') = 'working'
   order by id desc
   limit 1
), {part paused_queues}, page as materialized (
  select r.name, r.closed_until, r.closed_reason, r.rate_per, make_interval(secs => (r.breaker ->> 'pause')::float8) as pause,
         case when r.closed_until is null or r.closed_until > clock.now then r.closed_at end as closed_at,
         coalesce(r.total = 0 or r.per_key = 0, false) as is_zero
    from clock, {schema}.limit_rule r
   where r.removed_at is null
   order by r.name
   limit 1000
), seen as materialized (
  select p.*, s.failures, case when s.open_until > clock.now then s.open_until end as open_until, k.number as stopped_keys,
         p.closed_at is null and not p.is_zero and s.open_until > clock.now is not true and coalesce(s.held, 0) <= 0
           and s.spent_until > clock.now is not true and s.starts[cardinality(s.starts)] > clock.now - p.rate_per is not true
           and not exists (select from {schema}.lane l where l.limit_name = p.name and l.held > 0) as is_idle
    from clock, page p
    left join lateral (
      select held, failures, open_until, spent_until, starts
        from {schema}.limit_state where limit_name = p.name order by version desc limit 1) s on true
   cross join lateral (
      select (select count(*) from (select from {schema}.lane l
                                     where l.limit_name = p.name and l.open_until > clock.now limit %(cap)s::int) c)::int
           + (select count(*) from (select from {schema}.limit_key k
                                     where k.limit_name = p.name and k.closed_at is not null
                                       and (k.closed_until is null or k.closed_until > clock.now) limit %(cap)s::int) c)::int as number) k
), judged as materialized (
  select s.*, o.stuck_for
    from clock, seen s
    left join lateral (
      select clock.now - min(g.ready_at) as stuck_for
        from (select limit_key, ready_at, queue, kind from {schema}.ready_gated
               where limit_name = s.name order by limit_key, priority, job limit 1000) g
        left join {schema}.limit_key k on k.limit_name = s.name and k.key = g.limit_key
       where g.ready_at <= clock.now - %(patience)s::interval and k.per_key = 0 is not true
         and (k.closed_at is not null and (k.closed_until is null or k.closed_until > clock.now)) is not true
         and not exists (select from {schema}.lane l
                          where l.limit_name = s.name and l.key = g.limit_key and (l.due_at > clock.now or l.open_until > clock.now))
         and {part served_at_gate}) o on s.is_idle
)
select j.name, j.closed_at, j.closed_until, j.closed_reason, j.is_zero, j.open_until, j.pause, coalesce(j.failures, 0) as failures,
       j.stopped_keys, j.stuck_for, w.jobs::int as waiting, clock.now
  from clock, judged j
 cross join lateral (
   select count(*) as jobs
     from (select from {schema}.ready_gated where limit_name = j.name limit %(cap)s::int) counted) w
 where j.closed_at is not null or j.is_zero or j.open_until is not null or j.stopped_keys > 0 or j.stuck_for is not null
 order by j.name
