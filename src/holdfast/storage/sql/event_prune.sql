-- Delete up to %(limit)s events that no flow took within the time they were kept for. Skips locked ones; leans on
-- event_keep_until. Answers how many.
with old as materialized (
  select id from {schema}.event
   where keep_until <= coalesce(%(now)s::timestamptz, statement_timestamp())
   order by keep_until
   limit %(limit)s::int
     for update skip locked
), gone as (
  delete from {schema}.event where id = any(array(select id from old))
)
select count(*)::int from old
