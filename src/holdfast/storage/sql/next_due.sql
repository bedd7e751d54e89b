-- How long until something is due by itself: a scheduled job, a deadline.
-- NULL where nothing is to come; never less than nothing, nor more than a hundred years. Looks from %(since)s on, as promote does.
-- Leans on scheduled_run_at and the partial deadline indexes, one entry of each.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), due as materialized (
  select (select run_at from {schema}.scheduled
           where run_at >= coalesce(%(since)s::timestamptz, '-infinity')
           order by run_at limit 1) as run_at,
         least(
           (select deadline_at from {schema}.ready
             where deadline_at is not null and deadline_at >= coalesce(%(since)s::timestamptz, '-infinity')
             order by deadline_at limit 1),
           (select deadline_at from {schema}.scheduled
             where deadline_at is not null and deadline_at >= coalesce(%(since)s::timestamptz, '-infinity')
             order by deadline_at limit 1),
           (select deadline_at from {schema}.waiting
             where deadline_at is not null and deadline_at >= coalesce(%(since)s::timestamptz, '-infinity')
             order by deadline_at limit 1)) as deadline_at
)
select case when run_at <= now then interval '0'
            when run_at is not null then least(run_at, now + interval '36525 days') - now end as run,
       case when deadline_at <= now then interval '0'
            when deadline_at is not null then least(deadline_at, now + interval '36525 days') - now end as deadline
  from clock, due
