-- Which of a worker's queues have something that it may run: the one question of an idle poll.
-- Always answers one row, with the ring's version and closed segment. Locks nothing; leans on the primary key of ready.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
select ring.version,
       case when ring.closed_until > clock.now then ring.closed end as closed,
       array(
         select q.name
           from unnest(%(queues)s::text[]) with ordinality as q (name, position)
          where exists (
                  select from {schema}.ready r
                   where r.segment in ({segments}) and r.queue = q.name and r.kind = any(%(kinds)s::text[])
                     and (r.deadline_at is null or r.deadline_at > clock.now)
                  offset 0)
            and not exists (
                  select from {schema}.queue s
                   where s.name = q.name and s.paused_at is not null
                     and (s.paused_until is null or s.paused_until > clock.now))
          order by q.position) as queues
  from clock, (select version, closed, closed_until from {schema}.ring order by version desc limit 1) ring
