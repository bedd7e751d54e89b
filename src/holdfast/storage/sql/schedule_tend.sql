-- Say that these schedules are still declared. Answers those of which nobody has said so for %(pause)s: whoever gets the
-- answer reads their scopes, so that of many workers one does. One that was deleted stays deleted.
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
