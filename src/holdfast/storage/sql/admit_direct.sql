-- Admit jobs of %(limit)s for whose keys there are knocks, as far as permits are free: those who came, and those who wait for permits
-- that came back. For a limit with a number of permits for each key, or for all together and no keys; a limit that was removed lets
-- everybody pass, and goes on counting. Asked after admit_lock, in the same transaction. One that is counted otherwise (it has a row in
-- limit_state) is left alone.
-- Takes up to %(batch)s knocks from %(since)s on, in the order of their ids, and admits up to %(most)s jobs of each key, most urgent and
-- oldest first, only those that a live worker serves, from queues that are not paused. A job that has another limit to pass comes
-- to its gate.
-- Locks lanes in the order of their keys, because a settle deletes an idle one without our lock, and rows of the gate; both skip what is
-- locked, and then the key is knocked for again.
-- `awaited` tells whoever leaves that a lane must not be deleted: everybody is at work, and somebody may wait or come to wait.
-- Leans on the primary keys of knock and lane, and on ready_gated_lane. Wakes the queues of those admitted.
-- Answers how many knocks were taken, how many jobs have passed, the last knock, for how many keys it knocked again, and how many jobs
-- came to their next gate.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), rule as materialized (
  select case when r.removed_at is not null then 2147483647
              when r.closed_at is not null and (r.closed_until is null or r.closed_until > clock.now) then 0
              else coalesce(r.per_key, r.total, 2147483647) end as cap,
         exists (select from {schema}.limit_key where limit_name = %(limit)s::text) as has_keys, r.removed_at is not null as is_removed
    from clock, {schema}.limit_rule r
   where r.name = %(limit)s::text and (r.may_be_direct or r.removed_at is not null)
     and not exists (select from {schema}.limit_state where limit_name = %(limit)s::text)
), taken as materialized (
  delete from {schema}.knock
   where ctid = any(array(
           select ctid from {schema}.knock
            where limit_name = %(limit)s::text and id >= %(since)s::bigint and exists (select from rule)
            order by id
            limit %(batch)s::int))
  returning id, key, given, priority, job
), asked as materialized (
  select key, sum(given)::int as given, min(coalesce(priority, -1)) as priority, min(coalesce(job, 0)) as job
    from taken
   group by key
   order by key
), me as materialized (
  select queues, kinds from {schema}.worker
   where lost_at is null and coalesce(activity, 'working') = 'working'
   order by id desc
   limit 1
), {part paused_queues}, lanes as materialized (
  select a.key, a.given, a.priority, a.job, l.place, l.awaited, coalesce(l.held, 0) as was_held,
         greatest(coalesce(l.held, 0) - a.given, 0) as held, coalesce(k.cap, r.cap) as cap,
         l.place is not null and s.is_ours is null as is_locked
    from rule r, asked a
    left join lateral (
     select held, awaited, ctid as place from {schema}.lane
      where limit_name = %(limit)s::text and key = a.key
      order by version desc
      limit 1) l on true
    left join lateral (
     select case when o.closed_at is not null and (o.closed_until is null or o.closed_until > clock.now) then 0 else o.per_key end as cap
       from {schema}.limit_key o, clock
      where r.has_keys and not r.is_removed and o.limit_name = %(limit)s::text and o.key = a.key offset 0) k on true
    left join lateral (
     select true as is_ours from {schema}.lane where ctid = l.place for update skip locked) s on true
   -- Nobody takes an awaited lane away, and whoever leaves it looks for others: if it is full, that is all there is to know.
   where not coalesce(l.awaited and a.given = 0 and l.held >= coalesce(k.cap, r.cap), false)
), picked as materialized (
  select g.place
    from lanes l
   cross join lateral (
     select g.ctid as place from {schema}.ready_gated g
      where g.limit_name = %(limit)s::text and g.limit_key = l.key and (g.priority, g.job) >= (l.priority, l.job)
        and {part served_at_gate}
      order by g.priority, g.job
      limit least(l.cap - l.held, %(most)s::int)
        for update skip locked) g
   where not l.is_locked and l.cap > l.held
), out_of_gate as (
  delete from {schema}.ready_gated where ctid = any(array(select place from picked))
  returning queue, priority, job, kind, attempt, deadline_at, limit_key, next_limit, next_key
), passed as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at, limit_name, limit_key)
  select queue, priority, job,
         case when next_limit is null then (select current from {schema}.ring order by version desc limit 1) else 8 end,
         kind, attempt, clock.now, deadline_at, next_limit, next_key
    from clock, out_of_gate
  on conflict do nothing
  returning queue, priority, job, segment, limit_name, limit_key
), {part came of=passed}, counted as materialized (
  select u.key, max(u.place) as place, max(u.was_held) as was_held, bool_or(u.awaited) as was_awaited, max(u.cap) as cap,
         max(u.held) as before, max(u.held) + sum(u.passed)::int as held, sum(u.passed)::int as passed,
         max(u.priority) as priority, max(u.job) as job
    from (select key, place, was_held, awaited, cap, held, priority, job, 0 as passed from lanes where not is_locked
          union all select limit_key, null, null, null, null, null, null, null, 1 from out_of_gate) u
   group by u.key
), decided as materialized (
  -- Rows are compared from where the knock said on: whoever waits before that was told so by a lane that is awaited already.
  select c.key, c.place, c.was_held, c.was_awaited, c.cap, c.held, c.passed, c.priority, c.job,
         c.held >= c.cap
         and (c.cap <> 1 or c.before >= c.cap
              or exists (select from {schema}.ready_gated g
                          where g.limit_name = %(limit)s::text and g.limit_key = c.key and (g.priority, g.job) >= (c.priority, c.job)
                         offset 1)) as awaited
    from counted c
), dropped as (
  delete from {schema}.lane
   where ctid = any(array(
           select place from decided where place is not null and (held <> was_held or awaited is distinct from was_awaited)))
), added as (
  insert into {schema}.lane (limit_name, key, held, awaited)
  select %(limit)s::text, key, held, awaited
    from decided
   where held > 0 and (place is null or held <> was_held or awaited is distinct from was_awaited)
), again as (
  insert into {schema}.knock (limit_name, key, given, priority, job)
  select %(limit)s::text, key, given, priority, job from lanes where is_locked
  union all
  select %(limit)s::text, d.key, 0, d.priority, d.job
    from decided d
   where d.held < d.cap
     and (d.passed >= %(most)s::int
          or (select count(*)
                from (select from {schema}.ready_gated g
                       where g.limit_name = %(limit)s::text and g.limit_key = d.key and (g.priority, g.job) >= (d.priority, d.job)
                         and {part served_at_gate}
                       limit d.passed + 1) seen) > d.passed)
  returning key
), {part told_of_placed of=passed}
select (select count(*) from taken)::int as taken, (select count(*) from out_of_gate)::int as passed,
       (select max(id) from taken) as last, (select count(*) from again)::int as again,
       (select count(*) from passed where segment = 8)::int as onward
  from (select count(*) from told) as everyone
