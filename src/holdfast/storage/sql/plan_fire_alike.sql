-- Write down the same decisions for many scopes of one schedule that stood alike, and fire: what plan_fire does, without
-- an array of everything for each of them. Nothing is known of their jobs afterwards, so it is not for schedules whose
-- jobs must not overlap.
-- Compare-and-swap: scopes that do not stand so any more are left alone, and all of them while another transaction holds their
-- schedule or has changed it. Plans that are there already (backfilled) are looked for once for all scopes.
-- Locks schedule, then schedule_scope, for which it waits only for single statements: a transaction that holds them longer holds the
-- schedule. Leans on schedule_scope_pkey and plan_identity. Answers as plan_fire.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), held as materialized (
  select name, history, args::json as args, priority, max_attempts, kind, queue, backoff, timeout,
         -- Forgotten by the next prune, not when it ends: its plan has to learn what became of it.
         case when keep = interval '0' then interval '1 microsecond' else keep end as keep, on_lost, tags,
         (select k.limits is not null from {schema}.kind k where k.name = schedule.kind) as is_limited
    from {schema}.schedule
   where name = %(schedule)s::text and version = %(version)s::bigint
     for no key update skip locked
), plans as materialized (
  select n, plan_time, earliest, run_at, count, decision, reason,
         -- With a limit, or it might be made a list of all plans of the schedule to look things up in.
         (select true from {schema}.plan k
           where k.schedule = %(schedule)s::text and k.plan_time = p.plan_time limit 1) is not null as is_known,
         -- What the origins of all its jobs have in common, made once.
         jsonb_build_object('schedule', %(schedule)s::text, 'plan_time', plan_time, 'decision', decision) as origin
    from unnest(%(plan_times)s::timestamptz[], %(earliests)s::timestamptz[], %(run_ats)s::timestamptz[],
                %(counts)s::int[], %(decisions)s::text[], %(reasons)s::text[])
           with ordinality as p (plan_time, earliest, run_at, count, decision, reason, n)
), moved as (
  update {schema}.schedule_scope c
     set last_plan_at = coalesce(%(last_plan)s::timestamptz, c.last_plan_at), next_at = %(next)s::timestamptz,
         error = null
    from held h
   where c.schedule = %(schedule)s::text and c.scope = any(%(scopes)s::text::text[])
     and c.gone_at is null and c.skips is null and c.job is null
     and c.last_plan_at is not distinct from %(was_last)s::timestamptz
     and greatest(c.since_at, c.last_plan_at) = %(since)s::timestamptz
     and c.zone is not distinct from %(zone)s::text
  returning c.scope, c.args::json as args
), decided as materialized (
  select m.scope, m.args, p.plan_time, p.earliest, p.run_at, p.count, p.decision, p.reason, p.origin,
         case when p.run_at is not null then nextval('{schema}.job_id_seq') end as job
    from moved m, plans p
   where not p.is_known
      or not exists (select from {schema}.plan k
                      where k.schedule = %(schedule)s::text and k.plan_time = p.plan_time and k.scope = m.scope)
), recorded as (
  insert into {schema}.plan (schedule, scope, plan_time, earliest, decided_at, keep_until, run_at, job, count, decision,
                             reason)
  select h.name, d.scope, d.plan_time, d.earliest, clock.now, clock.now + h.history, d.run_at, d.job, d.count, d.decision,
         d.reason
    from clock, held h, decided d
), fired as materialized (
  select d.job, d.scope, d.run_at, d.origin, coalesce(d.args, h.args) as args, l.limits, l.keys as limit_keys
    from held h
   cross join decided d
    left join lateral (
     select q.limits, q.keys from {schema}.limits_of(h.kind, coalesce(d.args, h.args)::jsonb) q where h.is_limited) l on true
   where d.job is not null
), written as (
  insert into {schema}.job (id, created_at, priority, max_attempts, kind, queue, args, backoff, timeout, keep, on_lost,
                            tags, origin, limits, limit_keys)
  select f.job, clock.now, h.priority, h.max_attempts, h.kind, h.queue, f.args, h.backoff, h.timeout,
         h.keep, h.on_lost, h.tags,
         jsonb_set(f.origin, '{scope}', to_jsonb(f.scope)), f.limits, f.limit_keys
    from clock, held h, fired f
), due_now as (
  select h.queue, h.priority, f.job, h.kind, 0 as attempt, clock.now as ready_at, null::timestamptz as deadline_at, f.limits, f.limit_keys,
         null::text[] as holds
    from clock, held h, fired f
   where f.run_at <= clock.now
), {part placed_new of=due_now}, later as (
  insert into {schema}.scheduled (job, run_at, attempt)
  select d.job, d.run_at, 0 from clock, decided d where d.run_at > clock.now
), told as materialized (
  select pg_notify('{schema_name}.ready', h.queue) from held h where exists (select from placed where segment <> 8)
  union all
  select pg_notify('{schema_name}.gate', '') where exists (select from placed where segment = 8)
  union all
  select pg_notify('{schema_name}.due', extract(epoch from due)::text)
    from (select min(p.run_at) as due from plans p, clock where p.run_at > clock.now) d
   where due is not null and exists (select from moved)
)
select (select count(*) from moved)::int as taken, (select count(job) from decided)::int as fired
  from (select count(*) from told) as everyone
