-- The queues from which nothing is claimed now, as one array.
paused as materialized (
  select array(select q.name from {schema}.queue q, clock
                where q.paused_at is not null and (q.paused_until is null or q.paused_until > clock.now)) as queues
)
