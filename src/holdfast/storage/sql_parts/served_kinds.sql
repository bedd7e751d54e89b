-- Each (queue, kind) that a live worker can take now, as `served`: of queues that are not paused.
served as materialized (
  select distinct q.queue, k.kind
    from {schema}.worker w
   cross join unnest(w.queues) as q (queue)
   cross join unnest(w.kinds) as k (kind)
   where w.lost_at is null and q.queue is not null and k.kind is not null
     and not exists (
           select from {schema}.queue s, clock
            where s.name = q.queue and s.paused_at is not null
              and (s.paused_until is null or s.paused_until > clock.now))
)
