-- Move up to %(limit)s flows whose wait has timed out to ready, and wake their queues. Each flow then decides for itself,
-- under the lock, whether it is too late: what it waited for may have arrived at that very moment.
-- Skips locked rows; leans on waiting_until. Answers how many, how long until the next one (NULL: none), and whether
-- there are wake-ups to be taken from %(since)s on: an idle look is this statement alone.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), due as materialized (
  select ctid as place
    from {schema}.waiting
   where until is not null and until <= (select now from clock)
   order by until
   limit %(limit)s::int
     for update skip locked
), taken as (
  delete from {schema}.waiting w using due d where w.ctid = d.place returning w.job, w.until, w.deadline_at
), unawaited as (
  delete from {schema}.wait where job = any(array(select job from taken))
), placed as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at)
  select j.queue, least(greatest(j.priority, 0), 9), t.job, (select current from {schema}.ring order by version desc limit 1),
         j.kind, 0, t.until, t.deadline_at
    from taken t
   cross join lateral (select queue, priority, kind from {schema}.job where id = t.job offset 0) j
  on conflict do nothing
  returning queue
), {part woken_queues of=placed}
select (select count(*) from taken)::int as moved,
       (select case when until <= clock.now then interval '0' else least(until, clock.now + interval '36525 days') - clock.now end
          from {schema}.waiting
         where until is not null and until > clock.now order by until limit 1) as next_in,
       exists (select from {schema}.wakeup where id >= %(since)s::bigint) as is_waking
  from clock, (select count(*) from told) as everyone
