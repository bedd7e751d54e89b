-- Move up to %(limit)s flows whose wait has timed out to ready, or to the gate, and wake their queues. Each flow then decides for itself,
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
  delete from {schema}.waiting w using due d where w.ctid = d.place returning w.job, w.until, w.deadline_at, w.holds
), unawaited as (
  delete from {schema}.wait where job = any(array(select job from taken))
), late as (
  select j.queue, least(greatest(j.priority, 0), 9) as priority, t.job, j.kind, 0 as attempt, t.until as ready_at, t.deadline_at,
         j.limits, j.limit_keys, t.holds
    from taken t
   cross join lateral (select queue, priority, kind, limits, limit_keys from {schema}.job where id = t.job offset 0) j
), {part placed of=late}, {part told_of_placed of=placed}
select (select count(*) from taken)::int as moved,
       (select case when until <= clock.now then interval '0' else least(until, clock.now + interval '36525 days') - clock.now end
          from {schema}.waiting
         where until is not null and until > clock.now order by until limit 1) as next_in,
       exists (select from {schema}.wakeup where id >= %(since)s::bigint) as is_waking
  from clock, (select count(*) from told) as everyone
