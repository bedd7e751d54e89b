-- Write down what was decided for scopes, and fire what is to fire: plans, jobs and how far each scope has come, in one
-- statement. Arrays have one element for each scope; %(firsts)s and %(lasts)s say which elements of the arrays of plans
-- are its own. Of a plan, %(places)s says which of its scope's jobs it has (NULL: it does not fire), %(decided)s which
-- of the decisions and reasons; earliests and counts may be NULL as a whole.
-- Compare-and-swap: a scope that is not as it was read, or whose schedule is not, is left alone with all its plans,
-- and so is one that another transaction has locked: it is still due. Never waits for a lock of others'. A plan that is written
-- already (backfilled, or by another leader) fires no second time.
-- Of schedules whose jobs must not overlap (%(keep_jobs)s) the last job is remembered.
-- Locks schedule, then schedule_scope; leans on schedule_pkey, schedule_scope_pkey and plan_identity.
-- Jobs of kinds with limits go to the gate, with the keys that their arguments give by then.
-- Wakes the queues of what may run now, and the leader for what runs later or waits at the gate. Answers how many scopes were taken, and how
-- many jobs were made.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), plans as materialized (
  select %(plan_times)s::timestamptz[] as plan_times, %(earliests)s::timestamptz[] as earliests,
         %(run_ats)s::timestamptz[] as run_ats, %(places)s::int[] as places, %(counts)s::text::int[] as counts,
         %(decided)s::text::int[] as decided, %(decisions)s::text[] as decisions, %(reasons)s::text[] as reasons
), taken as materialized (
  select a.schedule, a.scope, a.last_plan_at, a.next_at, a.keeps_job, a.first, a.last, s.history, c.place,
         array(select nextval('{schema}.job_id_seq') from generate_series(1, a.jobs)) as jobs
    from unnest(%(schedules)s::text::text[], %(scopes)s::text::text[], %(versions)s::text::bigint[],
                %(were_last)s::timestamptz[], %(last_plans)s::timestamptz[], %(nexts)s::timestamptz[],
                %(keep_jobs)s::boolean[], %(firsts)s::text::int[], %(lasts)s::text::int[], %(jobs)s::text::int[])
           as a (schedule, scope, version, was_last, last_plan_at, next_at, keeps_job, first, last, jobs)
   cross join lateral (
     select history from {schema}.schedule
      where name = a.schedule and version = a.version
        for no key update skip locked) s
   cross join lateral (
     select ctid as place from {schema}.schedule_scope
      where schedule = a.schedule and scope = a.scope and gone_at is null
        and last_plan_at is not distinct from a.was_last
        for update skip locked) c
), moved as (
  update {schema}.schedule_scope c
     set last_plan_at = coalesce(t.last_plan_at, c.last_plan_at), next_at = t.next_at,
         skips = case when c.skips is not null
                      then nullif(array(select s from unnest(c.skips) as s
                                         where s > coalesce(t.last_plan_at, '-infinity')), '{}') end,
         job = case when t.keeps_job then coalesce(t.jobs[cardinality(t.jobs)], c.job) end, error = null
    from taken t
   where c.ctid = t.place
), recorded as (
  insert into {schema}.plan (schedule, scope, plan_time, earliest, decided_at, keep_until, run_at, job, count, decision,
                             reason)
  select t.schedule, t.scope, plan_times[n], earliests[n], clock.now, clock.now + t.history, run_ats[n], t.jobs[places[n]],
         coalesce(counts[n], 1), decisions[decided[n]], reasons[decided[n]]
    from clock, plans, taken t
   cross join lateral generate_series(t.first, t.last) as n
  on conflict on constraint plan_identity do nothing
  returning schedule, scope, plan_time, run_at, job, decision
), fired as materialized (
  select r.schedule, r.scope, r.plan_time, r.run_at, r.job, r.decision, r.run_at <= clock.now as is_due,
         coalesce(c.args, s.args) as args, s.priority, s.max_attempts, s.kind, s.queue, s.backoff, s.timeout,
         -- As in plan_fire_alike.
         case when s.keep = interval '0' then interval '1 microsecond' else s.keep end as keep, s.on_lost, s.tags,
         l.limits, l.keys as limit_keys
    from clock, recorded r
   cross join lateral (
     select args, priority, max_attempts, kind, queue, backoff, timeout, keep, on_lost, tags,
            (select k.limits is not null from {schema}.kind k where k.name = schedule.kind) as is_limited
       from {schema}.schedule where name = r.schedule offset 0) s
   cross join lateral (
     select args from {schema}.schedule_scope where schedule = r.schedule and scope = r.scope offset 0) c
    left join lateral (
     select q.limits, q.keys from {schema}.limits_of(s.kind, coalesce(c.args, s.args)) q where s.is_limited) l on true
   where r.job is not null
), written as (
  insert into {schema}.job (id, created_at, priority, max_attempts, kind, queue, args, backoff, timeout, keep, on_lost,
                            tags, origin, limits, limit_keys)
  select f.job, clock.now, f.priority, f.max_attempts, f.kind, f.queue, f.args, f.backoff, f.timeout, f.keep, f.on_lost,
         f.tags, jsonb_build_object('schedule', f.schedule, 'scope', f.scope, 'plan_time', f.plan_time,
                                    'decision', f.decision), f.limits, f.limit_keys
    from clock, fired f
), due_now as (
  select queue, priority, job, kind, 0 as attempt, clock.now as ready_at, null::timestamptz as deadline_at, limits, limit_keys,
         null::text[] as holds
    from clock, fired
   where is_due
), {part placed_new of=due_now}, later as (
  insert into {schema}.scheduled (job, run_at, attempt)
  select job, run_at, 0 from fired where not is_due
), told as materialized (
  select pg_notify('{schema_name}.ready', queue) from (select distinct queue from placed where segment <> 8) q
  union all
  select pg_notify('{schema_name}.gate', '') where exists (select from placed where segment = 8)
  union all
  select pg_notify('{schema_name}.due', extract(epoch from due)::text)
    from (select min(run_at) as due from fired where not is_due) d
   where due is not null
)
select (select count(*) from taken)::int as taken, (select count(*) from fired)::int as fired
  from (select count(*) from told) as everyone
