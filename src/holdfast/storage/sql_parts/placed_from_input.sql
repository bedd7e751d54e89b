-- Of the new jobs in `input` (id, template, run_at, deadline_at), put those that may run now into ready.
placed as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at)
  select (%(queues)s::text[])[i.template], (%(priorities)s::smallint[])[i.template], i.id,
         (select current from {schema}.ring order by version desc limit 1),
         (%(kinds)s::text[])[i.template], 0, clock.now, i.deadline_at
    from clock, input i
   where i.run_at is null or i.run_at <= clock.now
)
