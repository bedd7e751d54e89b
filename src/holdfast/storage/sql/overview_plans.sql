-- Of each schedule, up to 1,000 by name: how many plans were missed in the last day (counted up to 100) and the last of them, what is
-- wrong with it, and when it fires next. Only schedules of which one of these is known.
-- Leans on schedule_pkey, schedule_scope_pkey and plan_identity. Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
select s.name, s.kind, s.queue, s.is_paused, p.missed, p.last_missed_at, coalesce(s.error, c.error) as error, c.next_at, clock.now
  from clock
 cross join lateral (
   select name, kind, queue, error, paused_at is not null and (paused_until is null or paused_until > clock.now) as is_paused
     from {schema}.schedule order by name limit 1000) s
 cross join lateral (
   select count(*)::int as missed, max(m.plan_time) as last_missed_at
     from (select plan_time from {schema}.plan
            where schedule = s.name and plan_time > clock.now - interval '1 day' and plan_time <= clock.now
              and (decision = 'missed' or reason = 'too_late')
            order by plan_time desc limit 100) m) p
 cross join lateral (
   select min(error) as error, min(next_at) as next_at
     from {schema}.schedule_scope where schedule = s.name and gone_at is null) c
 where p.missed > 0 or s.error is not null or c.error is not null or c.next_at is not null
 order by s.name
