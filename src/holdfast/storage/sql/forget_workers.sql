-- Delete workers that were lost more than %(keep)s ago and hold no lease any more, and what was asked that long ago of workers
-- that are gone. Answers the ids of the deleted workers.
with gone as materialized (
  select id from {schema}.worker w
   where lost_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(keep)s::interval
     and not exists (select from {schema}.lease l where l.worker = w.id)
   order by id
     for update skip locked
), unasked as (
  delete from {schema}.worker_request r
   where r.asked_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(keep)s::interval
     and not exists (select from {schema}.worker w where w.id = r.worker)
)
delete from {schema}.worker w using gone where w.id = gone.id
returning w.id
