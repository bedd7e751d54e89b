-- Delete counters with numbers that no worker counts. What they told is lost; sums without them are right again.
-- Locks these rows. Answers how many, or nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) + interval '1 day' as later
), minutes as (
  delete from {schema}.counter using clock
   where runs < 0 or run_time < interval '0' or wait_time < interval '0' or minute > later returning 1
), hours as (
  delete from {schema}.counter_hour using clock
   where runs < 0 or run_time < interval '0' or wait_time < interval '0' or hour > later returning 1
), begun as (
  delete from {schema}.beginning using clock where enqueued < 0 or started < 0 or minute > later returning 1
), begun_hours as (
  delete from {schema}.beginning_hour using clock where enqueued < 0 or started < 0 or hour > later returning 1
)
select count(*)
  from (select from minutes union all select from hours union all select from begun union all select from begun_hours) d
having count(*) > 0
