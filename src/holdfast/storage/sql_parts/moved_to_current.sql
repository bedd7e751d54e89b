-- Put the rows of ready that were deleted into `taken` into the current segment, wake their queues, and answer how many.
placed as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at)
  select t.queue, t.priority, t.job, (select current from {schema}.ring order by version desc limit 1),
         t.kind, t.attempt, t.ready_at, t.deadline_at
    from taken t
  on conflict do nothing
), {part woken_queues of=taken}
select count(*)::int from taken, (select count(*) from told) as everyone
