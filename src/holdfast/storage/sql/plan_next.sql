-- How long until the planner is to look again, on the database's clock; nothing (NULL) when nothing is to come.
-- Always one row. Leans on schedule_scope_next_at.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
select greatest(
         (select next_at from {schema}.schedule_scope where next_at is not null order by next_at limit 1) - clock.now,
         interval '0') as length
  from clock
