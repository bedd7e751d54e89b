-- Record that these schedules are still declared. Returns those that no worker has recorded for %(pause)s: the worker that
-- gets them reads their scopes, so that only one of many workers does. A deleted schedule stays deleted.
-- Skips locked rows: another transaction is changing them, or saying the same.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), due as materialized (
  select ctid as place from {schema}.schedule
   where name = any(%(names)s::text[]) and declared_at <= (select now from clock) - %(pause)s::interval
     for update skip locked
)
update {schema}.schedule s
   set declared_at = clock.now
  from clock, due d
 where s.ctid = d.place
returning s.name as schedule
