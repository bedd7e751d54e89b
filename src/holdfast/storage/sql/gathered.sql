-- How many jobs of each kind are ready in one queue, up to a number for each kind, and for how many seconds the oldest of
-- these has been: what decides whether a batch is claimed now. None while the queue is paused. One row for each kind, also
-- without jobs, and with the ring's version and closed segment. Locks nothing; leans on the primary key of ready, and steps
-- over other kinds: only jobs among the first %(window)s of the queue are seen, if that is given.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
select ring.version, case when ring.closed_until > clock.now then ring.closed end as closed,
       asked.kind, found.number as number,
       coalesce(date_part('epoch', clock.now - found.oldest), 0) as oldest
  from clock,
       (select version, closed, closed_until from {schema}.ring order by version desc limit 1) ring,
       unnest(%(kinds)s::text[], %(most)s::int[]) with ordinality as asked (kind, most, place),
       lateral (
         select count(*)::int as number, min(ready_at) as oldest
           from (select front.ready_at
                   from (select r.kind, r.ready_at
                           from {schema}.ready r
                          where r.segment in ({segments}) and r.queue = %(queue)s::text
                            and (r.deadline_at is null or r.deadline_at > clock.now)
                            and not exists (
                                  select from {schema}.queue q
                                   where q.name = %(queue)s::text and q.paused_at is not null
                                     and (q.paused_until is null or q.paused_until > clock.now))
                          order by r.priority, r.job
                          limit %(window)s::int) front
                  where front.kind = asked.kind
                  limit asked.most) first) found
 order by asked.place
