-- Whether a worker has nothing to do just now: it runs nothing, nothing that it may run is ready, and nothing of that
-- sort is due without having been promoted yet. One snapshot, so a job on its way between these places is always seen.
-- Counts parked rows too: the leader brings them back for a worker that has just come. Jobs of a later time and of
-- other workers do not count; a wake-up does, since a flow may go on by it, a group whose members have all ended,
-- and a notice for its hooks. Locks nothing; leans on lease_pkey, ready_pkey and scheduled_run_at. Always one row.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), open as materialized (
  select q.name
    from unnest(%(queues)s::text[]) as q (name), clock
   where not exists (
           select from {schema}.queue s
            where s.name = q.name and s.paused_at is not null
              and (s.paused_until is null or s.paused_until > clock.now))
)
select not exists (select from {schema}.lease l where l.worker = %(worker)s::bigint)
   and not exists (select from {schema}.wakeup)
   and not exists (
         select from {schema}.job_group g
          where g.ended_at is null and g.closed_at is null
            and g.succeeded + g.failed + g.cancelled + g.expired >= g.members and not {part first_awaited})
   and not exists (
         select from {schema}.notice n
          where n.kind = any(%(kinds)s::text[])
            and not exists (select from {schema}.worker t
                             where t.id = n.teller and t.lost_at is null and t.id <> %(worker)s::bigint))
   and not exists (
         select from open o, clock
          cross join lateral (
            select from {schema}.ready r
             where r.queue = o.name and r.kind = any(%(kinds)s::text[])
               and (r.deadline_at is null or r.deadline_at > clock.now)
             limit 1) as something)
   and not exists (
         select from clock, {schema}.scheduled s
          cross join lateral (select queue, kind from {schema}.job where id = s.job offset 0) j
          where s.run_at <= clock.now and j.kind = any(%(kinds)s::text[]) and j.queue in (select name from open)
            and (s.deadline_at is null or s.deadline_at > clock.now))
