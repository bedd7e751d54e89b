-- Delete workers that were lost more than %(keep)s ago and hold no lease any more. Answers their ids.
with gone as materialized (
  select id from {schema}.worker w
   where lost_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(keep)s::interval
     and not exists (select from {schema}.lease l where l.worker = w.id)
   order by id
     for update skip locked
)
delete from {schema}.worker w using gone where w.id = gone.id
returning w.id
