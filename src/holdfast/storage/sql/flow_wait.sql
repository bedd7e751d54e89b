-- Let runs of flows wait: one element of each array for each thing that a run waits for. Asked after flow_lock, in the
-- same transaction, for keys of events and for flows with children: an event or an end that we do not see here is
-- committed later, and the leader that takes it up has to wait for our lock, and then finds us waiting.
-- If something is there already, the run gets it at once and continues, and only that is written. Else the lease is deleted,
-- the attempt refunded, and the flow waits: in scheduled if only time can wake it, in waiting if something else can too.
-- Of several waits of a run for the same event, each takes one, in the order given; written_at, a microsecond apart, keeps
-- this order for flow_wake.
-- An event with an error is one that the run got before and refuses, because its payload does not fit: the next event
-- replaces it. Until then its wait is open again, with its old timeout, and keeps the error and the payload for operators.
-- The flow tries that payload again with growing pauses, at least every ten minutes, because newer code may accept it.
-- Permits of limits are given back, but for those with hold = 'job'.
-- The fence is (worker, job, run) in lease, locked first, in ascending order.
-- Answers for each thing: done (with its value), late (its timeout has passed), open (not there yet, but the run continues),
-- waiting (the run is suspended), stop (the flow must end: cancelled, or past its deadline), lost.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select * from unnest(
    %(workers)s::bigint[], %(jobs)s::bigint[], %(runs)s::bigint[], %(names)s::text[], %(kinds)s::text[],
    %(keys)s::text[], %(delays)s::interval[], %(eager)s::boolean[], %(places)s::int[], %(codes)s::bigint[],
    %(failures)s::smallint[], %(errors)s::text[], %(branches)s::text[]
  ) with ordinality as a (worker, job, run, name, kind, key, delay, is_eager, place, code, failures, error, branch, position)
), held as materialized (
  select a.worker, a.job, a.run, l.place, l.attempt, l.ready_at, l.started_at, j.kind, j.queue, j.deadline_at, j.limits, j.limit_keys,
         l.cancel_requested_at is not null or coalesce(j.deadline_at <= clock.now, false) as is_to_end
    from clock, (select distinct worker, job, run from asked order by job) a
   cross join lateral (
     select ctid as place, attempt, ready_at, started_at, cancel_requested_at from {schema}.lease
      where worker = a.worker and job = a.job and run = a.run
        for update) l
   cross join lateral (select kind, queue, deadline_at, limits, limit_keys from {schema}.job where id = a.job offset 0) j
), calls as materialized (
  select a.job, a.name as bunch, c.place, c.is_done, c.error is not null as has_failed, f.outcome, f.result, f.error,
         not c.is_done and f.outcome is null and j.id is null as is_gone
    from (select job, name from asked where kind = 'call' and run in (select run from held)) a
   cross join lateral (
     select ctid as place, child, is_done, error from {schema}.checkpoint where job = a.job and bunch = a.name
        for no key update) c
    left join lateral (
     select outcome, result, error from {schema}.ledger where job = c.child and is_final and not c.is_done offset 0) f on true
    left join lateral (select id from {schema}.job where id = c.child offset 0) j on true
), bunches as materialized (
  select job, bunch,
         bool_and(is_done or outcome is not null or is_gone) as is_over,
         bool_or(has_failed or outcome <> 'succeeded' or is_gone) as is_failed
    from calls
   group by job, bunch
), turns as materialized (
  select a.run, a.name, a.key, row_number() over (partition by a.run, a.key order by a.position) as turn
    from asked a
    join held h on h.run = a.run and not h.is_to_end
   where a.kind = 'event'
     and (a.error is not null or not exists (
       select from {schema}.checkpoint c where c.job = a.job and c.name = a.name and c.is_done offset 0))
), events as materialized (
  select t.run, t.name, t.turn, v.id, v.payload
    from turns t
    left join lateral (
     select id, payload from {schema}.event where key = t.key order by id limit 1 offset t.turn - 1) v on true
), found as materialized (
  select a.job, a.run, a.name, a.kind, a.key, a.is_eager, a.place, a.code, a.failures, a.error, a.branch,
         case when c.is_done then c.value end as known, case when r.is_refused then c.value end as refused, r.is_refused,
         case when r.is_refused then clock.now + least(interval '10 minutes', interval '5 seconds' * 2 ^ least(a.failures - 1, 7)) end
           as look_at,
         v.turn, v.id as event, v.payload,
         case when a.kind = 'retry' then clock.now + a.delay else coalesce(c.until, clock.now + a.delay) end as until,
         case when h.run is null then 'lost'
              when h.is_to_end then 'stop'
              when c.is_done or v.id is not null or b.is_over or (a.is_eager and b.is_failed) then 'done'
              when a.kind = 'sleep' and coalesce(c.until, clock.now + a.delay) <= clock.now then 'done'
              when a.kind = 'event' and coalesce(c.until, clock.now + a.delay) <= clock.now then 'late'
              else 'open'
         end as status
    from clock, asked a
   cross join lateral (select a.kind = 'event' and a.error is not null as is_refused) r
    left join held h on h.run = a.run
    left join lateral (
     select is_done and not r.is_refused as is_done, until, value from {schema}.checkpoint
      where job = a.job and name = a.name and a.kind <> 'call' offset 0) c on true
    left join events v on v.run = a.run and v.name = a.name
    left join bunches b on b.job = a.job and b.bunch = a.name and a.kind = 'call'
), parting as materialized (
  select h.*, s.until, s.is_awaiting, s.error, {part kept_permits limits=h.limits} as kept, 2 as held,
         case when s.error is null then 'snoozed' else 'retried' end::{schema}.outcome as outcome
    from held h
   cross join lateral (
     select min(least(until, look_at)) as until, bool_or(kind in ('event', 'call')) as is_awaiting, bool_and(status = 'open') as is_open,
            max(error) filter (where kind = 'retry') as error
       from found where run = h.run) s
   where s.is_open
), gone as (
  delete from {schema}.lease l using parting p where l.ctid = p.place
), written as (
  insert into {schema}.ledger
         (job, run, ready_at, started_at, finished_at, worker, outcome, attempt, is_final, queue, kind, error)
  select job, run, ready_at, started_at, clock.now, worker,
         outcome, attempt, false, queue, kind, error::jsonb
    from parting, clock
), later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt, holds)
  select job, until, deadline_at, 0, case when kept > 0 then limits[:kept] end from parting where not is_awaiting
), suspended as (
  insert into {schema}.waiting (job, since, until, deadline_at, holds)
  select job, clock.now, until, deadline_at, case when kept > 0 then limits[:kept] end from parting, clock where is_awaiting
), awaited as (
  insert into {schema}.wait (job, name, key, is_eager)
  select job, name, key, is_eager from found
   where kind in ('event', 'call') and run in (select run from parting)
), noted as (
  update {schema}.checkpoint c
     set is_done = true, written_at = clock.now, value = k.result,
         error = case when k.is_gone then jsonb_build_object('state', 'unknown', 'message', 'there is no such job (any more)')
                      when k.outcome <> 'succeeded' then coalesce(k.error, '{}') || jsonb_build_object('state', k.outcome)
                 end
    from calls k, clock
   where c.ctid = k.place and not k.is_done and (k.outcome is not null or k.is_gone)
), taken as (
  delete from {schema}.event
   where key = any(array(select key from found where event is not null))
     and id = any(array(select event from found where event is not null))
), kept as (
  insert into {schema}.checkpoint as c
         (job, name, kind, place, code, written_at, until, is_done, failures, value, error, branch)
  select job, name, case kind when 'retry' then 'step' else kind end, place, code,
         clock.now + coalesce(turn - 1, 0) * interval '1 microsecond', case when status = 'open' or kind = 'event' then until end,
         status <> 'open', coalesce(failures, 0), case when status = 'open' then refused else payload end,
         case status when 'late' then jsonb_build_object('code', 'timeout') when 'open' then error::jsonb end, branch
    from found, clock
   where kind <> 'call' and status in ('done', 'late', 'open')
  on conflict (job, name) do update
     set is_done = excluded.is_done, written_at = excluded.written_at, until = excluded.until,
         failures = excluded.failures, value = excluded.value, error = excluded.error
   where not c.is_done or (c.job, c.name) in (select job, name from found where is_refused)
), {part given_back of=parting}, {part counted runs=parting outcome=outcome}
select job, run, name,
       case when status = 'open' and run in (select run from parting) then 'waiting' else status end as status,
       coalesce(known, payload)::text as value
  from found
