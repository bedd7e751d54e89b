-- Delete counters of minutes that are older than %(keep)s. Leans on the primary key of counter.
with old as materialized (
  select ctid as place
    from {schema}.counter
   where minute < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(keep)s::interval
   order by minute
   limit %(limit)s::int
     for update skip locked
), gone as (
  delete from {schema}.counter c using old o where c.ctid = o.place
)
select count(*)::int from old
