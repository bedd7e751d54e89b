-- Hand up to %(limit)s ready jobs of one queue to one worker, most urgent and oldest first; only behind
-- %(after_priority)s and %(after_job)s if these are given, so that what was just taken is not stepped over again.
-- Only kinds that the worker knows, only before their deadline, only while the queue is not paused, and only
-- for a worker that has not been marked lost: its row is locked (key share), so that marking waits for us.
-- %(is_quick)s leaves out every row that a transaction has ever locked: to try a lock and find it held costs another read of
-- the page and two requests for locks. Such a row may be free by now, so a claim that tries them has to follow.
-- Locks ready rows in (priority, job) order and skips locked ones; leans on the primary key of ready, whose
-- segments are named as literals so that the one being truncated is neither read nor locked. Each of them gets
-- a delete of its own (taken_0 …): rows of one partition go by their places in two thirds of the time.
-- A job whose unique key a newer one has taken over is told so, unless it is a flow that has begun: its worker ends it.
-- Rows of jobs that are gone, or that have ended, are swept. Attempts are clamped, as are timeouts: a row damaged by
-- hand fails no claim.
-- Always answers with the ring's version and its closed segment, with no job when nothing may run now; and with how many
-- were picked, those that were swept included.
with me as materialized (
  select id from {schema}.worker
   where id = %(worker)s::bigint and lost_at is null
     for key share
), clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), known as materialized (
  select %(kinds)s::text::text[] as kinds
), picked as materialized (
  select segment, ctid as place, job, attempt, ready_at
    from {schema}.ready
   where segment in ({segments})
     and queue = %(queue)s::text
     and (priority, job) > (coalesce(%(after_priority)s::smallint, '-32768'::smallint), coalesce(%(after_job)s::bigint, 0))
     and (xmax = 0 or not %(is_quick)s::boolean)
     and kind = any((select kinds from known)::text[])
     and (deadline_at is null or deadline_at > (select now from clock))
     and exists (select from me)
     and not exists (
           select from {schema}.queue
            where name = %(queue)s::text and paused_at is not null
              and (paused_until is null or paused_until > (select now from clock)))
   order by priority, job
   limit %(limit)s::int
     for update skip locked
), {taken}, states as materialized (
  select exists (select from {schema}.saved where job = any(array(select job from picked))) as is_any
), listed as materialized (
  select array_agg(job order by job) as jobs, array_agg(attempt order by job) as attempts,
         array_agg(ready_at order by job) as ready_ats
    from picked
), over as materialized (
  -- Ended, and put back by hand: never run again. One pass over the key for all of them; compared as a number, so that
  -- the planner does not choose the partial index on is_final.
  select job from {schema}.ledger
   where job = any((select jobs from listed)::bigint[]) and is_final::int = 1
     and outcome in ({final_outcomes})
), begun as materialized (
  -- The wide rows in one pass over their key, for the lease and for the answer.
  select id as job, nextval('{schema}.run') as run,
         (least(greatest((select attempts from listed)[width_bucket(id, (select jobs from listed))], 0), 32766) + 1)::smallint as attempt,
         (select ready_ats from listed)[width_bucket(id, (select jobs from listed))] as ready_at,
         clock.now as started_at, greatest(least(clock.now + coalesce(timeout, %(timeout)s::interval), deadline_at), clock.now) as timeout_at,
         kind, args, priority, max_attempts, backoff, created_at, deadline_at, tags, origin,
         unique_key is null and keep is null and parent is null and limits is null as is_plain, limits is not null as is_limited,
         case when unique_key is not null
              then (select s.by from {schema}.superseded s
                     where s.job = job.id and not exists (select from {schema}.checkpoint c where c.job = job.id offset 0)) end as newer
    from clock, {schema}.job
   where id = any((select jobs from listed)::bigint[]) and id <> all(array(select job from over))
), leased as (
  insert into {schema}.lease (worker, job, run, ready_at, started_at, timeout_at, attempt, queue, kind, is_plain)
  select %(worker)s::bigint, job, run, ready_at, started_at, timeout_at, attempt, %(queue)s::text, kind, is_plain from begun
)
select ring.version, case when ring.closed_until > clock.now then ring.closed end as closed,
       b.job, b.run, b.attempt, b.kind, b.args::text, b.priority, b.max_attempts, b.backoff::text,
       b.started_at, date_part('epoch', b.timeout_at - b.started_at) as lasting, b.created_at, b.deadline_at, b.tags,
       case when (select is_any from states)
            then (select s.state::text from {schema}.saved s where s.job = b.job) end as state,
       b.origin::text, cardinality((select jobs from listed)) as picked, b.is_plain,
       date_part('epoch', b.started_at - least(greatest(b.ready_at, timestamptz '1900-01-01 00:00:00Z'), b.started_at)) as waited, b.is_limited,
       b.newer
  from clock, (select version, closed, closed_until from {schema}.ring order by version desc limit 1) ring
  left join begun b on true
 order by b.priority, b.job
