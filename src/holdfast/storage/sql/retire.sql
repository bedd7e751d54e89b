-- A worker ends: its row goes if it holds no lease, with what was asked of it; otherwise its lease ends now and rescue does the rest.
-- Asked after retire_lock, in the same transaction: only a statement that begins under the lock is sure to see
-- what the last claim took. Answers whether it is gone.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), me as materialized (
  select id from {schema}.worker where id = %(worker)s::bigint
), gone as (
  delete from {schema}.worker w
   using me
   where w.id = me.id and not exists (select from {schema}.lease l where l.worker = me.id)
  returning w.id
), unasked as (
  delete from {schema}.worker_request r using gone where r.worker = gone.id
), ended as (
  update {schema}.worker w
     set expires_at = least(w.expires_at, clock.now)
    from me, clock
   where w.id = me.id and exists (select from {schema}.lease l where l.worker = me.id)
  returning w.id
)
select exists (select from gone) or not exists (select from me) as is_gone
