-- Act on wake-ups: record the ends of children in their flows' checkpoints, give events to the flows that wait for them,
-- move flows whose wait is over to ready, or to the gate, and wake their queues. Asked after flow_wake_take, in the same transaction.
-- An event goes to every flow that waits for its key at this moment, and there to the first wait for it; if none does, it
-- is kept for the first that asks. A wait keeps its time: the flow may refuse what it is given, see flow_wait.
-- Locks waiting rows; a flow that was cancelled, expired or timed out meanwhile is not there any more, and its event stays.
-- Answers how many flows were woken, and the children of flows that have ended without them, to be cancelled.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), taken as materialized (
  delete from {schema}.wakeup where id = any(%(ids)s::bigint[]) returning job, child, key
), ended as materialized (
  select c.job, c.name, c.place, c.bunch, f.outcome, f.result, f.error
    from (select distinct child from taken where child is not null order by child) t
   cross join lateral (
     select job, name, bunch, ctid as place from {schema}.checkpoint where child = t.child and not is_done
        for no key update) c
   cross join lateral (
     select outcome, result, error from {schema}.ledger where job = t.child and is_final offset 0) f
), noted as (
  update {schema}.checkpoint c
     set is_done = true, written_at = clock.now, value = e.result,
         error = case when e.outcome <> 'succeeded' then coalesce(e.error, '{}') || jsonb_build_object('state', e.outcome) end
    from ended e, clock
   where c.ctid = e.place
), by_child as materialized (
  select w.job
    from (select distinct job, bunch from ended) e
   cross join lateral (
     select job, is_eager from {schema}.wait where job = e.job and name = e.bunch and key is null offset 0) w
   where (w.is_eager
          and exists (select from ended f where f.job = e.job and f.bunch = e.bunch and f.outcome <> 'succeeded'))
      or not exists (
           select from {schema}.checkpoint c
            where c.job = e.job and not c.is_done and c.bunch = e.bunch
              and (c.job, c.name) not in (select job, name from ended)
           offset 0)
), waiters as materialized (
  select w.job, w.name, c.place, c.written_at, t.key, v.id, v.payload
    from (select distinct key from taken where key is not null) t
   cross join lateral (select id, payload from {schema}.event where key = t.key order by id limit 1) v
   cross join lateral (select job, name from {schema}.wait where key = t.key offset 0) w
   cross join lateral (
     select ctid as place, written_at from {schema}.checkpoint where job = w.job and name = w.name and not is_done
        for no key update) c
), by_event as materialized (
  select distinct on (job, key) job, place, key, id, payload
    from waiters
   order by job, key, written_at, name
), woken as materialized (
  delete from {schema}.waiting
   where job = any(array(select job from by_child union select job from by_event))
  returning job, deadline_at, holds
), unawaited as (
  delete from {schema}.wait where job = any(array(select job from woken))
), delivered as (
  update {schema}.checkpoint c
     set is_done = true, written_at = clock.now, value = e.payload, error = null
    from by_event e, clock
   where c.ctid = e.place and e.job in (select job from woken)
), consumed as (
  delete from {schema}.event
   where key = any(array(select key from by_event where job in (select job from woken)))
     and id = any(array(select id from by_event where job in (select job from woken)))
), awake as (
  select j.queue, least(greatest(j.priority, 0), 9) as priority, w.job, j.kind, 0 as attempt, clock.now as ready_at, w.deadline_at,
         j.limits, j.limit_keys, w.holds
    from clock, woken w
   cross join lateral (select queue, priority, kind, limits, limit_keys from {schema}.job where id = w.job offset 0) j
), {part placed of=awake}, {part told_of_placed of=placed}
select (select count(*) from woken)::int as woken,
       array(select c.child
               from (select distinct job from taken where job is not null and child is null) t
              cross join lateral (
                select child from {schema}.checkpoint where job = t.job and not is_done and child is not null offset 0) c
              where exists (select from {schema}.ledger f where f.job = t.job and f.is_final offset 0)) as orphans
  from (select count(*) from told) as everyone
