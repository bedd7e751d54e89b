-- End runs as decided; answers how each of them ended. Arrays have one element per run, in ascending order of runs; an
-- array is NULL if no run has a value for it, and a run without an outcome succeeded.
-- The fence is (worker, job, run) still in lease: deleted in ascending order, waiting for a transaction that holds it.
-- A run that is not there any more was settled before (the ledger has it: already) or taken away by a rescue
-- (lost); so is one whose job is gone. One that another transaction ended while we waited is moving: only a new statement
-- sees how it ended.
-- A cancel request turns retry, snooze and release into cancelled, and its reason is the error's message; a passed
-- deadline turns them into expired.
-- Keys that another transaction has locked are left behind: enqueue takes such a key over, and prune sweeps it.
-- Runs that failed are counted for their group of failures, too.
-- With the part noticed, for runs that no attempt settles, it leaves a notice where a hook has to be called.
-- Permits of limited jobs are handed on or given back; a job that goes on keeps those of limits with hold = 'job', and one that is
-- released comes to its gate again. The answer says which queues have got jobs by that, and whether the leader has to look at a gate.
-- The end of a flow's child leaves a wake-up for the flow, that of a flow with open calls one for these.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select {part asked_runs},
         %(outcomes)s::text::{schema}.outcome[] as outcomes, %(delays)s::interval[] as delays,
         %(errors)s::text::text[] as errors, %(results)s::text::text[] as results, %(flags)s::text::text[] as flags,
         %(fingerprints)s::text::text[] as fingerprints,
         array[{continuing_outcomes}]::{schema}.outcome[] as unfinished
), gone as (
  delete from {schema}.lease
   where {part fence}
  returning worker, job, run, attempt, ready_at, started_at, cancel_requested_at, cancel_reason,
            width_bucket(run, (select runs from asked)) as place
), ended as materialized (
  select g.worker, g.job, g.run, g.place, g.attempt, g.ready_at, g.started_at, g.cancel_reason,
         j.kind, j.queue, j.deadline_at, j.unique_key, j.keep, j.parent, j.limits, j.limit_keys, j.priority,
         case when asked.outcomes[g.place] is null then 'succeeded'
              when asked.outcomes[g.place] <> all(asked.unfinished) then asked.outcomes[g.place]
              when g.cancel_requested_at is not null then 'cancelled'
              when j.deadline_at <= clock.now then 'expired'
              else asked.outcomes[g.place]
         end as outcome
    from clock, asked, gone g
   cross join lateral (
     select kind, queue, deadline_at, unique_key, keep, parent, limits, limit_keys, priority
       from {schema}.job where id = g.job offset 0) j
), others as materialized (
  select job, run, place, attempt, kind, queue, deadline_at, keep, outcome, limits, limit_keys,
         case when outcome = any((select unfinished from asked)::{schema}.outcome[]) then {part kept_permits limits=limits} else 0 end as kept
    from ended where outcome <> 'succeeded'
), leaving as materialized (
  -- They give their permits back, but for those that they keep until they end.
  select e.worker, e.job, e.run, e.priority, e.limits, e.limit_keys, coalesce(o.kept, 0) as kept,
         case when e.outcome = 'succeeded' then 1
              when e.outcome in ('failed', 'retried') and e.run <> all(coalesce(%(spared)s::text::bigint[], '{}')) then -1
              else 0 end as verdict
    from ended e
    left join others o on o.run = e.run
   where e.limits is not null
), forgettable as materialized (
  select job, queue, unique_key, keep, parent
    from ended
   where (unique_key is not null or keep is not null or parent is not null)
     and outcome <> all((select unfinished from asked)::{schema}.outcome[])
), written as (
  insert into {schema}.ledger
         (job, run, ready_at, started_at, finished_at, keep_until, worker, outcome, attempt, is_final, queue, kind, flag,
          error, result)
  select job, run, ready_at, started_at, clock.now,
         case when outcome = any(unfinished) then null
              else clock.now + coalesce(keep, case outcome when 'succeeded' then %(keep_succeeded)s::interval
                                                           when 'failed' then %(keep_dead)s::interval
                                                           else %(keep_other)s::interval end)
         end,
         worker, outcome, attempt, outcome <> all(unfinished), queue, kind,
         flags[place],
         case when outcome = 'cancelled' and cancel_reason is not null
              then coalesce(errors[place]::jsonb, '{}') - 'type' || jsonb_build_object('message', cancel_reason, 'code',
                   case when errors[place]::jsonb ->> 'code' in ('lease_lost', 'stale_timeout')
                        then errors[place]::jsonb ->> 'code' else 'cancelled' end)
              else errors[place]::jsonb
         end,
         results[place]::jsonb
    from asked, clock, ended
), later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt, holds)
  select job, clock.now + delays[place], deadline_at, greatest(attempt - (outcome = 'snoozed')::int, 0),
         case when kept > 0 then limits[:kept] end
    from asked, clock, others
   where outcome in ('retried', 'snoozed')
  on conflict (job) do nothing
), again as materialized (
  select o.queue, least(greatest(j.priority, 0), 9) as priority, o.job, o.kind, greatest(o.attempt - 1, 0) as attempt,
         clock.now as ready_at, o.deadline_at, o.limits, o.limit_keys, case when o.kept > 0 then o.limits[:o.kept] end as holds
    from clock, others o
   -- Locked so that it is the newest: it may have been changed while we waited for the lease.
   cross join lateral (select priority from {schema}.job where id = o.job for share) j
   where o.outcome = 'released'
), {part placed of=again}, died as (
  insert into {schema}.dead (job, run, died_at, fingerprint)
  select job, run, clock.now, asked.fingerprints[place]
    from clock, asked, others
   where outcome = 'failed' and keep is distinct from interval '0'
  on conflict (job) do update set run = excluded.run, died_at = excluded.died_at, fingerprint = excluded.fingerprint
), {part freed_and_forgotten jobs=forgettable}, woken as (
  insert into {schema}.wakeup (job, child)
  select parent, job from forgettable where parent is not null
  union all
  select o.job, null
    from others o
   where o.outcome <> all((select unfinished from asked)::{schema}.outcome[])
     and exists (select from {schema}.checkpoint c where c.job = o.job and not c.is_done and c.child is not null offset 0)
  returning pg_notify('{schema_name}.wake', '')
), failures as (
  insert into {schema}.failure_tally (seen_at, job, run, runs, fingerprint, kind, queue, code, type, message, frame)
  select clock.now, asked.jobs[t.last], asked.runs[t.last], t.runs, t.fingerprint, t.kind, t.queue,
         e.error ->> 'code', e.error ->> 'type', left(e.error ->> 'message', 500), e.error ->> 'frame'
    from clock, asked
   cross join lateral (
     select asked.fingerprints[place] as fingerprint, kind, queue, count(*) as runs, max(place) as last
       from others
      where outcome in ('failed', 'retried') and asked.fingerprints[place] is not null
      group by 1, 2, 3) t
   cross join lateral (select asked.errors[t.last]::jsonb as error) e
), {part counted runs=ended outcome=outcome}
{part handed_on of=leaving}
{part noticed}
select job, run, answer, outcome{part handed_on_answer}
  from (select job, run, 'settled' as answer, outcome::text from ended
        union all
        {part unsettled job=a.job run=a.run}) answers
