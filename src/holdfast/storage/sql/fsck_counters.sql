-- Numbers that no worker counts: fewer than none, or of a time to come. They would spoil every sum that they are in.
-- Reads the counters, of which there is one for each minute, queue, kind and outcome of a week. Locks nothing. Always answers a row.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) + interval '1 day' as later
), counted as materialized (
  select count(*)::int as looked, coalesce(bool_or(is_bad), false) as is_bad
    from (select runs < 0 or run_time < interval '0' or wait_time < interval '0' or minute > later as is_bad from {schema}.counter, clock
          union all
          select runs < 0 or run_time < interval '0' or wait_time < interval '0' or hour > later from {schema}.counter_hour, clock
          union all
          select enqueued < 0 or started < 0 or minute > later from {schema}.beginning, clock
          union all
          select enqueued < 0 or started < 0 or hour > later from {schema}.beginning_hour, clock) c
)
select null::bigint as job, case when is_bad then 'bad_counter' end as damage, looked, null::bigint as last from counted
