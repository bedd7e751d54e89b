-- Add the jobs and runs in `begun` (minute, queue, kind, enqueued, started) to those of their minute and hour, in the order of keys.
begun_in_minutes as (
  insert into {schema}.beginning as b (minute, queue, kind, enqueued, started)
  select minute, queue, kind, sum(enqueued), sum(started) from begun group by 1, 2, 3 order by 1, 2, 3
  on conflict (minute, queue, kind) do update
     set enqueued = least(greatest(b.enqueued, 0), 1000000000000000000) + excluded.enqueued,
         started = least(greatest(b.started, 0), 1000000000000000000) + excluded.started
), begun_in_hours as (
  insert into {schema}.beginning_hour as b (hour, queue, kind, enqueued, started)
  select {part hour_of time=minute}, queue, kind, sum(enqueued), sum(started) from begun group by 1, 2, 3 order by 1, 2, 3
  on conflict (hour, queue, kind) do update
     set enqueued = least(greatest(b.enqueued, 0), 1000000000000000000) + excluded.enqueued,
         started = least(greatest(b.started, 0), 1000000000000000000) + excluded.started
)
