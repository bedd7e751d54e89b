-- Delete jobs with all that is known of them: those that have ended, and with %(with_waiting)s those that wait for their turn. One that
-- runs or is a flow that waits has to be cancelled first; one that a flow waits for is left, or that flow would wait for ever, and so is
-- a member of an open group.
-- Never waits: skips locked ready, scheduled, ledger and dead rows, as prune does, and jobs whose unique key another transaction has
-- locked.
-- Answers for each job: deleted, awaited, active (it waits for its turn), running, waiting, unknown, or moving (ask again in a new
-- statement).
with asked as materialized (
  select distinct a.job
    from unnest(%(jobs)s::bigint[]) as a (job)
   where not exists (select from {schema}.checkpoint c where c.child = a.job and not c.is_done)
     and not exists (
           select from {schema}.group_member m
            cross join lateral (select from {schema}.job_group where id = m.job_group and ended_at is null offset 0) g
            where m.job = a.job offset 0)
   order by a.job
), {part in_ready_and_scheduled}, buried as materialized (
  select d.job
    from asked a
   cross join lateral (select job from {schema}.dead where job = a.job offset 0) d
), dead as materialized (
  select b.job from buried b
   cross join lateral (select from {schema}.dead where job = b.job for update skip locked) d
), ended as materialized (
  select l.job
    from asked a
   cross join lateral (
     select job from {schema}.ledger where job = a.job and is_final::int = 1 for update skip locked) l
  union
  -- Its ledger row was deleted by hand.
  select d.job from dead d
   where not exists (select from {schema}.ledger f where f.job = d.job and f.is_final::int = 1 offset 0)
), waits as materialized (
  select o.job, r.segment, r.place as in_ready, null::tid as in_scheduled, o.limit_name, null::text[] as holds
    from in_ready r
   cross join lateral (select job, limit_name from {schema}.ready where segment = r.segment and ctid = r.place offset 0) o
  union all
  select o.job, null, null, s.place, null, o.holds
    from in_scheduled s
   cross join lateral (select job, holds from {schema}.scheduled where ctid = s.place offset 0) o
), found as materialized (
  select job from ended where job in (select job from dead) or job not in (select job from buried)
  union
  select job from waits where %(with_waiting)s::boolean
), keys as materialized (
  select f.job from found f
   cross join lateral (select from {schema}.unique_key where job = f.job for update skip locked) k
), old as materialized (
  select job from found f
   where job in (select job from keys) or not exists (select from {schema}.unique_key k where k.job = f.job offset 0)
), leaving as materialized (
  select w.segment, w.in_ready, w.in_scheduled, j.limits, j.limit_keys, 0 as kept, {part held_permits place=w limits=j.limits} as held
    from waits w
    left join lateral (select limits, limit_keys from {schema}.job where id = w.job offset 0) j on true
   where w.job in (select job from old)
), {part given_back of=leaving}, out_of_ready as (
  delete from {schema}.ready r using leaving i where r.segment = i.segment and r.ctid = i.in_ready
), out_of_scheduled as (
  delete from {schema}.scheduled s using leaving i where s.ctid = i.in_scheduled
), out_of_dead as (
  delete from {schema}.dead where job = any(array(select job from old))
), {part deleted_for_good keys=old}
select a.job,
       case when o.job is not null then 'deleted'
            when k.job is null then 'awaited'
            when w.job is not null and not %(with_waiting)s::boolean then 'active'
            when exists (select from {schema}.ledger l where l.job = a.job and l.is_final) then 'moving'
            else {part place_of job=a.job}
       end as answer
  from (select distinct job from unnest(%(jobs)s::bigint[]) as a (job)) a
  left join old o using (job)
  left join asked k on k.job = a.job
  left join (select distinct job from waits) w on w.job = a.job
