-- Move up to %(limit)s parked rows that a worker can take by now back into the ring, or to the gate, and wake their queues.
-- Steps from one (queue, kind) to the next along ready_parked_kind, however many rows each has.
-- Rows are deleted and inserted again; locked ones are skipped. Answers how many were moved.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), {part parked_kinds}, claimable as materialized (
  select p.queue, p.kind
    from parked p, clock
   where exists (
           select from {schema}.worker w
            where w.lost_at is null and p.queue = any(w.queues) and p.kind = any(w.kinds))
     and not exists (
           select from {schema}.queue s
            where s.name = p.queue and s.paused_at is not null
              and (s.paused_until is null or s.paused_until > clock.now))
), picked as materialized (
  select r.place
    from claimable c
   cross join lateral (
     select ctid as place from {schema}.ready_parked
      where queue = c.queue and kind = c.kind
      limit %(limit)s::int
        for update skip locked) r
   limit %(limit)s::int
), taken as (
  delete from {schema}.ready_parked r using picked p where r.ctid = p.place
  returning r.queue, r.priority, r.job, r.kind, r.attempt, r.ready_at, r.deadline_at
), known as (
  select t.*, j.limits, j.limit_keys, null::text[] as holds
    from taken t
    left join lateral (select limits, limit_keys from {schema}.job where id = t.job offset 0) j on true
), {part placed of=known}, {part told_of_placed of=placed}
select count(*)::int from taken, (select count(*) from told) as everyone
