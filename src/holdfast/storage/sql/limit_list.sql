-- Limits by name, behind %(after)s, up to %(limit)s of them, or the one called %(name)s: their settings, how many permits are held, and who
-- waits. Counted up to %(cap)s: lanes that hold permits, and jobs at the gate.
-- Leans on limit_rule_pkey, lane_pkey, ready_gated_lane. Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), page as materialized (
  select name, changed_at, removed_at, closed_at, closed_until, closed_reason, is_direct, declared::text as declared, overrides::text as overrides
    from {schema}.limit_rule
   where name > coalesce(%(after)s::text, '') and (%(name)s::text is null or name = %(name)s::text)
   order by name
   limit %(limit)s::int
)
select p.name, p.declared, p.overrides, p.is_direct, p.changed_at, p.removed_at, p.closed_at, p.closed_until, p.closed_reason,
       coalesce(s.held, l.held, 0)::int as held, coalesce(l.keys, 0)::int as keys, w.jobs::int as waiting,
       clock.now - o.ready_at as oldest_wait,
       s.open_until,
       coalesce(s.failures, 0) as failures, (coalesce(l.shut, 0) + c.closed)::int as shut_keys,
       array(select k.name from {schema}.kind k where k.limits @> jsonb_build_array(jsonb_build_object('limit', p.name)) order by 1 limit 20) as kinds,
       array(select k.key from {schema}.limit_key k where k.limit_name = p.name order by 1 limit 20) as set_keys,
       clock.now
  from clock, page p
  left join lateral (
    select held, open_until, failures from {schema}.limit_state where limit_name = p.name order by version desc limit 1) s on true
  left join lateral (
    select sum(held) as held, count(*) filter (where held > 0) as keys, count(*) filter (where open_until > clock.now) as shut
      from (select held, open_until from {schema}.lane where limit_name = p.name limit %(cap)s::int + 1) counted) l on true
 cross join lateral (
    select count(*) as closed
      from {schema}.limit_key k
     where k.limit_name = p.name and k.closed_at is not null and (k.closed_until is null or k.closed_until > clock.now)) c
 cross join lateral (
    select count(*) as jobs
      from (select from {schema}.ready_gated where limit_name = p.name limit %(cap)s::int + 1) counted) w
  left join lateral (
    -- The oldest of those that come first in their keys, among a few keys: reading all would take as long as they wait.
    select min(ready_at) as ready_at
      from (select ready_at from {schema}.ready_gated where limit_name = p.name order by limit_key, priority, job limit 1000) first) o on true
 order by p.name
