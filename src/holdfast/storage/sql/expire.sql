-- End up to %(limit)s waiting jobs whose deadline has passed. Running ones are ended by their timeout, which
-- is never later than their deadline. Looks from %(since)s on (NULL: from the beginning), since entries of
-- jobs that are gone pile up before it while somebody holds an old snapshot.
-- Skips locked rows; leans on the partial deadline indexes. Answers how many, and the deadline up to which both
-- tables were looked through: the next since.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), in_ready as materialized (
  select segment, ctid as place
    from {schema}.ready
   where deadline_at is not null and deadline_at <= (select now from clock)
     and deadline_at >= coalesce(%(since)s::timestamptz, '-infinity')
   order by deadline_at
   limit %(limit)s::int
     for update skip locked
), in_scheduled as materialized (
  select ctid as place
    from {schema}.scheduled
   where deadline_at is not null and deadline_at <= (select now from clock)
     and deadline_at >= coalesce(%(since)s::timestamptz, '-infinity')
   order by deadline_at
   limit %(limit)s::int
     for update skip locked
), out_of_ready as (
  delete from {schema}.ready r using in_ready i where r.segment = i.segment and r.ctid = i.place
  returning r.job, r.attempt, r.deadline_at
), out_of_scheduled as (
  delete from {schema}.scheduled s using in_scheduled i where s.ctid = i.place
  returning s.job, s.attempt, s.deadline_at
), stopped as materialized (
  select t.job, t.attempt, t.deadline_at, j.kind, j.queue, j.keep
    from (select job, attempt, deadline_at from out_of_ready
          union all select job, attempt, deadline_at from out_of_scheduled) t
   cross join lateral (select kind, queue, keep from {schema}.job where id = t.job offset 0) j
), written as (
  insert into {schema}.ledger (job, run, finished_at, keep_until, outcome, attempt, is_final, queue, kind, error)
  select job, nextval('{schema}.run'), clock.now, clock.now + coalesce(keep, %(keep_other)s::interval),
         'expired', attempt, true, queue, kind, %(error)s::text::jsonb
    from stopped, clock
), freed as (
  delete from {schema}.unique_key
   where job = any(array(
           select s.job
             from stopped s
            cross join lateral (
              select from {schema}.unique_key where job = s.job for update skip locked) k))
), forgotten as (
  delete from {schema}.job where id = any(array(select job from stopped where keep = interval '0'))
), unsaved as (
  delete from {schema}.saved where job = any(array(select job from stopped where keep = interval '0'))
), counted as (
  insert into {schema}.tally (minute, outcome, queue, kind, runs, run_time)
  select date_trunc('minute', clock.now), 'expired', queue, kind, count(*), interval '0'
    from stopped, clock
   group by 1, 3, 4
)
select count(*)::int,
       least(max(deadline_at),
             (select max(deadline_at) from out_of_ready having count(*) >= %(limit)s::int),
             (select max(deadline_at) from out_of_scheduled having count(*) >= %(limit)s::int))
  from stopped
