-- Queues that are paused, or that a live worker serves, by name, with how many workers serve each.
-- Locks nothing; reads settings and workers only, so that its cost does not depend on how many jobs there are.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), served as (
  select name, count(*)::int as workers
    from clock, {schema}.worker w, unnest(w.queues) as name
   where w.lost_at is null and w.expires_at > clock.now
   group by name
), paused as (
  select q.name, q.paused_at, q.paused_until, q.pause_note
    from clock, {schema}.queue q
   where q.paused_at is not null and (q.paused_until is null or q.paused_until > clock.now)
)
select coalesce(s.name, p.name) as queue, coalesce(s.workers, 0) as workers, p.paused_at, p.paused_until, p.pause_note as note
  from served s
  full join paused p on p.name = s.name
 order by 1
