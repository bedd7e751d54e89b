-- How long until the planner is to look again, on the database's clock; nothing (NULL) when nothing is to come.
-- A scope that is gone is never due, even if it was given a time by hand. Always one row. Leans on
-- schedule_scope_next_at.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
select case when next_at <= clock.now then interval '0' else next_at - clock.now end as length
  from clock
  left join (
    select next_at from {schema}.schedule_scope
     where next_at is not null and gone_at is null
     order by next_at limit 1) as first on true
