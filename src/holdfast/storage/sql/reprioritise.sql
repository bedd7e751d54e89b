-- Give jobs another priority. A ready or scheduled job is moved (deleted and inserted again: an UPDATE would fail
-- a statement that waits for the row, and a promote that began before us would not see the new priority); a running or
-- waiting one has it from its next turn on. A job at a gate stays there, at its new place; one that has passed keeps its permits.
-- Skips locked rows. Answers for each job: changed, final, unknown, or moving (ask again in a new statement).
with asked as materialized (
  select distinct job from unnest(%(jobs)s::bigint[]) as a (job) order by job
), {part in_ready_and_scheduled}, in_lease as materialized (
  select l.job
    from asked a
   cross join {schema}.worker w
   cross join lateral (
     select job from {schema}.lease where worker = w.id and job = a.job for update skip locked) l
), in_waiting as materialized (
  select w.job
    from asked a
   cross join lateral (select job from {schema}.waiting where job = a.job for update skip locked) w
), out_of_ready as (
  delete from {schema}.ready r using in_ready i where r.segment = i.segment and r.ctid = i.place
  returning %(priority)s::smallint as priority, r.job, r.segment, r.queue, r.kind, r.attempt, r.ready_at, r.deadline_at,
            r.limit_name, r.limit_key, r.next_limit, r.next_key, null::text[] as limits, null::text[] as limit_keys
), out_of_scheduled as (
  delete from {schema}.scheduled s using in_scheduled i where s.ctid = i.place
  returning s.job, s.run_at, s.deadline_at, s.attempt, s.holds
), {part replaced_in_ready of=out_of_ready parked=9}, later as (
  insert into {schema}.scheduled (job, run_at, deadline_at, attempt, holds)
  select job, run_at, deadline_at, attempt, holds from out_of_scheduled
  returning job
), found as materialized (
  select job from placed union all select job from later union all select job from in_lease
  union all select job from in_waiting
), changed as (
  update {schema}.job set priority = %(priority)s::smallint where id = any(array(select job from found))
)
select a.job,
       case when f.job is not null then 'changed'
            when exists (select from {schema}.ledger l where l.job = a.job and l.is_final) then 'final'
            when not exists (select from {schema}.job j where j.id = a.job) then 'unknown'
            else 'moving'
       end as answer
  from asked a
  left join found f using (job)
