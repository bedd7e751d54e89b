-- Delete up to %(limit)s counters of hours, beginnings of hours and beginnings of minutes each, that are older than %(keep_hours)s and
-- %(keep_minutes)s. Skips locked rows. Leans on their primary keys. Answers how many.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), old_hours as materialized (
  select ctid as place from {schema}.counter_hour
   where hour < (select now from clock) - %(keep_hours)s::interval
   order by hour
   limit %(limit)s::int
     for update skip locked
), old_beginning_hours as materialized (
  select ctid as place from {schema}.beginning_hour
   where hour < (select now from clock) - %(keep_hours)s::interval
   order by hour
   limit %(limit)s::int
     for update skip locked
), old_beginnings as materialized (
  select ctid as place from {schema}.beginning
   where minute < (select now from clock) - %(keep_minutes)s::interval
   order by minute
   limit %(limit)s::int
     for update skip locked
), out_of_hours as (
  delete from {schema}.counter_hour c using old_hours o where c.ctid = o.place
), out_of_beginning_hours as (
  delete from {schema}.beginning_hour b using old_beginning_hours o where b.ctid = o.place
), out_of_beginnings as (
  delete from {schema}.beginning b using old_beginnings o where b.ctid = o.place
)
select ((select count(*) from old_hours) + (select count(*) from old_beginning_hours) + (select count(*) from old_beginnings))::int
