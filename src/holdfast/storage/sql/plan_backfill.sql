-- Fire plans of one schedule on request: those of a range, or with no plan time (NULL) one right now, in between.
-- One fire for each plan: one that has a job is left alone, one that was skipped or missed is taken over, and one that
-- was pruned is refused, since it may have fired. Answers the plans that were fired, with their jobs.
-- Locks schedule, then schedule_scope and plan, in the order of scopes, and waits for them. Fires that were planned before
-- are void. Jobs of kinds with limits go to the gate. %(is_now)s: where jobs must not overlap, this one counts, unless an earlier one is still active.
with clock as materialized (
  -- Between plan times: those are whole milliseconds at least.
  select now, case when extract(microseconds from now)::bigint %% 1000 = 0
                   then now + interval '1 microsecond' else now end as unplanned
    from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) c
), asked as materialized (
  select a.scope, coalesce(a.plan_time, clock.unplanned) as plan_time
    from clock, unnest(%(scopes)s::text::text[], %(plan_times)s::timestamptz[]) as a (scope, plan_time)
), template as (
  update {schema}.schedule set version = version + 1 where name = %(schedule)s::text
  returning name, history, args, priority, max_attempts, kind, queue, backoff, timeout, on_lost, tags,
            case when keep = interval '0' then interval '1 microsecond' else keep end as keep,
            coalesce(rules ->> 'overlap', 'allow') <> 'allow' as is_exclusive,
            (select k.limits is not null from {schema}.kind k where k.name = schedule.kind) as is_limited
), scopes as materialized (
  select scope, args, pruned_until, job, ctid as place
    from {schema}.schedule_scope
   where schedule = (select name from template) and gone_at is null and scope in (select scope from asked)
   order by scope
     for update
), wanted as materialized (
  select a.scope, a.plan_time, nextval('{schema}.job_id_seq') as job
    from asked a join scopes s using (scope)
   where s.pruned_until is null or a.plan_time > s.pruned_until
), recorded as (
  insert into {schema}.plan as p (schedule, scope, plan_time, decided_at, keep_until, run_at, job, decision, reason)
  select t.name, w.scope, w.plan_time, clock.now, clock.now + t.history, clock.now, w.job,
         %(decision)s::text, %(reason)s::text
    from clock, template t, wanted w
  on conflict on constraint plan_identity do update
     set decided_at = excluded.decided_at, keep_until = excluded.keep_until, run_at = excluded.run_at,
         job = excluded.job, count = 1, earliest = null, decision = excluded.decision, reason = excluded.reason
   where p.job is null
  returning p.scope, p.plan_time, p.job
), fired as materialized (
  select r.scope, r.plan_time, r.job, coalesce(s.args, t.args) as args, l.limits, l.keys as limit_keys
    from template t
   cross join recorded r
    join scopes s using (scope)
    left join lateral (
     select q.limits, q.keys from {schema}.limits_of(t.kind, coalesce(s.args, t.args)) q where t.is_limited) l on true
), active as (
  update {schema}.schedule_scope c
     set job = f.job
    from template t, scopes s join fired f using (scope)
   where %(is_now)s::boolean and t.is_exclusive and c.ctid = s.place
     and (not exists (select from {schema}.job j where j.id = s.job)
          or exists (select from {schema}.ledger l where l.job = s.job and l.is_final))
), written as (
  insert into {schema}.job (id, created_at, priority, max_attempts, kind, queue, args, backoff, timeout, keep, on_lost,
                            tags, origin, limits, limit_keys)
  select f.job, clock.now, t.priority, t.max_attempts, t.kind, t.queue, f.args, t.backoff, t.timeout, t.keep, t.on_lost,
         t.tags, jsonb_build_object('schedule', t.name, 'scope', f.scope, 'plan_time', f.plan_time,
                                    'decision', %(decision)s::text), f.limits, f.limit_keys
    from clock, template t, fired f
), due_now as (
  select t.queue, t.priority, f.job, t.kind, 0 as attempt, clock.now as ready_at, null::timestamptz as deadline_at, f.limits, f.limit_keys,
         null::text[] as holds
    from clock, template t, fired f
), {part placed_new of=due_now}, {part told_of_placed of=placed}
select f.scope, f.plan_time, f.job from fired f, (select count(*) from told) as everyone
 order by f.plan_time, f.scope
