-- Take up to %(limit)s notices of kinds that a worker knows, oldest jobs first: it calls their hooks, then deletes them.
-- What a worker has taken that is alive is left to it; what it has taken itself and does not name any more, too.
-- Locks notice rows in (kind, job, run) order, for which kinds come sorted, and skips locked ones. Leans on the primary key
-- of notice, kind by kind.
with picked as materialized (
  select n.place
    from unnest(%(kinds)s::text[]) as k (kind)
   cross join lateral (
     select n.ctid as place
       from {schema}.notice n
      where n.kind = k.kind
        and not exists (select from {schema}.worker w where w.id = n.teller and w.lost_at is null)
      order by n.job, n.run
      limit %(limit)s::int
        for update of n skip locked) n
   limit %(limit)s::int
)
update {schema}.notice n
   set teller = %(worker)s::bigint, tries = least(n.tries, 32766) + 1
  from picked p
 where n.ctid = p.place
returning n.job, n.run, n.at, n.created_at, n.deadline_at, n.worker, n.outcome::text, n.attempt, n.max_attempts, n.priority,
          n.tries, n.kind, n.queue, n.tags, n.origin::text, n.error::text,
          (select s.state::text from {schema}.saved s where s.job = n.job) as state
