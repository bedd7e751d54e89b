-- Admit jobs of limit %(limit)s that wait at the gate, up to %(most)s: as many as its total, its rates, its breaker and what each key is
-- allowed leave free. Asked under the limit's lock, after admit_fold and admit_charge; only for a limit that is not direct.
-- Keys take turns by `pass`, which grows with each job by the inverse of the key's weight; inside a key the most urgent and oldest come
-- first. A job whose next limit is still to be passed goes to that one's gate and knocks there; others go to ready.
-- Only jobs that a live worker can take now; without a total, a limit with turns or a rate admits twice as many as there are slots.
-- ready is ordered by job, so that keys with old jobs would overtake: with turns nothing is admitted while the last jobs of the turn
-- before the last are still in ready.
-- A key that may go on keeps a pass; one that is full gets it back with a permit, one whose rate is used up at its time (due_at).
-- Locks gate rows, skipping locked ones. Leans on lane_turn, ready_gated_lane. Answers how many were admitted, the queues to wake, the
-- limits that were knocked at, whether a turn has to be waited for, in how many seconds to look again, and how long those admitted waited.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), {part effective_limit}, {part newest_state}, {part served_kinds}, slots as materialized (
  select coalesce(sum(slots), 0)::int as number from {schema}.worker where lost_at is null
), unclaimed as materialized (
  -- What the rate has given out and not charged yet.
  select coalesce(sum(coalesce(j.limit_costs[array_position(j.limits, %(limit)s::text)], 1)), 0)::int as cost
    from state, unnest(state.pending) as p (job)
   cross join lateral (select limits, limit_costs from {schema}.job where id = p.job offset 0) j
), overtaken as materialized (
  select exists (
    select from rule, state, unnest(state.turn_before) as t (job)
     cross join lateral (select queue, priority from {schema}.job where id = t.job offset 0) j
     cross join lateral (
       select from {schema}.ready r
        where r.queue = j.queue and r.priority = least(greatest(j.priority, 0), 9) and r.job = t.job and r.segment < 8 limit 1) r
     where rule.is_fair) as is_so
), free as materialized (
  select case when rule.rate is null then null
              when rule.is_strict
              then rule.rate - unclaimed.cost - coalesce((
                select sum(k.cost) from unnest(s.starts, s.start_costs) as k (at, cost) where k.at > clock.now - rule.rate_per), 0)::int
              else least(floor(extract(epoch from clock.now + rule.tau * rule.burst - greatest(s.spent_until, clock.now))
                               / extract(epoch from rule.tau) + 0.000001), rule.burst)::int - unclaimed.cost
         end as tokens,
         rule.opens_after is not null and not rule.is_per_key and coalesce(s.failures, 0) >= rule.opens_after as is_half_open,
         greatest(least(
           %(most)s::int,
           coalesce(rule.total, case when rule.is_fair or rule.rate is not null or rule.key_rate is not null then 2 * slots.number
                                     else 2147483647 end) - s.held), 0) as permits
    from clock, rule, state s, slots, unclaimed
), room as materialized (
  select case when rule.is_closed or s.open_until > clock.now or o.is_so then 0
              when f.is_half_open then case when s.is_probing then 0 else least(f.permits, coalesce(f.tokens, 1), 1) end
              else least(f.permits, coalesce(f.tokens, f.permits)) end as jobs,
         f.tokens, f.permits, f.is_half_open
    from clock, rule, state s, free f, overtaken o
), lanes as materialized (
  select l.place, l.key, l.held, l.pass, l.after_priority, l.after_job, l.spent_until, l.failures, l.is_probing, l.open_until, l.pending, l.starts,
         l.start_costs, coalesce(k.weight, 1)::float8 as weight,
         case when k.closed_at is not null and (k.closed_until is null or k.closed_until > clock.now) then 0 end as closed, k.closed_until,
         coalesce(k.per_key, rule.per_key, case when l.key = '' then rule.total end) as allowed,
         rule.opens_after is not null and rule.is_per_key and coalesce(l.failures, 0) >= rule.opens_after as is_half_open
    from clock, rule, (
      select ctid as place, key, held, pass, after_priority, after_job, spent_until, failures, is_probing, open_until, pending, starts, start_costs
        from {schema}.lane
       where limit_name = %(limit)s::text and pass is not null and pass >= %(since)s::bigint
       order by pass
       limit (select case when jobs > 0 then jobs + 10 else 0 end from room)) l
    left join {schema}.limit_key k on k.limit_name = %(limit)s::text and k.key = l.key
), rated as materialized (
  -- What the key's own rate leaves free.
  select l.*,
         case when rule.key_rate is null then null
              when rule.key_is_strict
              then rule.key_rate - p.cost - coalesce((
                select sum(u.cost) from unnest(l.starts, l.start_costs) as u (at, cost) where u.at > clock.now - rule.key_rate_per), 0)::int
              else least(floor(extract(epoch from clock.now + rule.key_tau * rule.key_burst - greatest(l.spent_until, clock.now))
                               / extract(epoch from rule.key_tau) + 0.000001), rule.key_burst)::int - p.cost
         end as tokens, p.cost as unclaimed
    from clock, rule, lanes l
   cross join lateral (
     select coalesce(sum(coalesce(j.limit_costs[array_position(j.limits, %(limit)s::text)], 1)), 0)::int as cost
       from unnest(l.pending) as u (job)
      cross join lateral (select limits, limit_costs from {schema}.job where id = u.job offset 0) j) p
), quotas as materialized (
  select r.*,
         least(greatest(floor(room.jobs * r.weight / sum(r.weight) over ()), 1)::int,
               greatest(coalesce(r.allowed - r.held, 2147483647), 0),
               case when r.is_half_open then case when r.is_probing then 0 else 1 end else 2147483647 end,
               greatest(coalesce(r.tokens, 2147483647), 0), coalesce(r.closed, 2147483647)) as quota
    from room, rated r
), found as materialized (
  select q.key, q.pass, q.tokens, g.place, g.job, g.priority, g.attempt, g.ready_at, g.deadline_at, g.queue, g.kind, g.next_limit, g.next_key,
         g.cost, row_number() over (order by q.pass, q.key, g.nth) as number,
         sum(g.cost) over (order by q.pass, q.key, g.nth) - g.cost as cost_before,
         sum(g.cost) over (partition by q.key order by g.nth) - g.cost as key_cost_before
    from rule, quotas q
   cross join lateral (
     select w.*, row_number() over (order by w.priority, w.job) as nth,
            case when rule.rate is null and rule.key_rate is null then 1
                 else (select coalesce(j.limit_costs[array_position(j.limits, %(limit)s::text)], 1) from {schema}.job j where j.id = w.job)
            end as cost
       from (select ctid as place, job, priority, attempt, ready_at, deadline_at, queue, kind, next_limit, next_key
               from {schema}.ready_gated
              where limit_name = %(limit)s::text and limit_key = q.key
                and (priority, job) > (coalesce(q.after_priority, -1), coalesce(q.after_job, 0))
                and (queue, kind) in (select queue, kind from served)
              order by priority, job
              limit q.quota
                for update skip locked) w) g
), picked as materialized (
  select f.*
    from rule, room, found f
   where f.number <= room.jobs
     and (room.tokens is null or f.cost_before + least(f.cost, case when rule.is_strict then rule.rate else rule.burst end) <= room.tokens)
     and (f.tokens is null
          or f.key_cost_before + least(f.cost, case when rule.key_is_strict then rule.key_rate else rule.key_burst end) <= f.tokens)
), gone as (
  delete from {schema}.ready_gated where ctid = any(array(select place from picked))
  returning job
), placed as (
  -- Reads `gone`, so that the old row is deleted before one with the same key comes for the next limit.
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at, limit_name, limit_key)
  select queue, priority, job,
         case when next_limit is null then (select current from {schema}.ring order by version desc limit 1) else 8 end,
         kind, attempt, clock.now, deadline_at, next_limit, next_key
    from clock, picked
   where (select count(*) from gone) > 0
), knocked as (
  insert into {schema}.knock (limit_name, key, given, priority, job)
  select next_limit, next_key, 0, min(priority), min(job) from picked where next_limit is not null group by next_limit, next_key
), refused as materialized (
  -- The first of each key that a rate does not have enough left for, and what it needs.
  select distinct on (f.key) f.key, f.number,
         least(f.cost, case when rule.is_strict then rule.rate else rule.burst end) as needed,
         least(f.cost, case when rule.key_is_strict then rule.key_rate else rule.key_burst end) as key_needed
    from rule, found f
   where (rule.rate is not null or rule.key_rate is not null) and f.place not in (select place from picked)
   order by f.key, f.number
), sums as materialized (
  select key, count(*)::int as jobs, sum(cost)::int as cost, array_agg(job order by priority, job) as ids,
         max(array[priority, job]) as last
    from picked
   group by key
), moved as materialized (
  select q.*, coalesce((select key_needed from refused r where r.key = q.key), 1) as needed, coalesce(s.jobs, 0) as taken, coalesce(s.cost, 0) as cost, s.ids, s.last,
         -- Whether nobody is left behind: of those that this look has come to, or that come after.
         not exists (
           select from {schema}.ready_gated g
            where g.limit_name = %(limit)s::text and g.limit_key = q.key
              and (g.priority, g.job) > (coalesce(q.after_priority, -1), coalesce(q.after_job, 0))
              and (g.queue, g.kind) in (select queue, kind from served)
              and g.job <> all(coalesce(s.ids, '{}'))
            offset 0) as is_exhausted
    from quotas q
    left join sums s using (key)
), next as materialized (
  select m.*,
         m.allowed is not null and m.held + m.taken >= m.allowed or m.closed is not null
           or m.is_half_open and (m.is_probing or m.taken > 0) as is_full,
         -- When one more unit of its rate is free, if all that was admitted starts now.
         case when rule.key_rate is not null and m.tokens - m.cost < m.needed
              then case when rule.key_is_strict
                        then coalesce((select min(u.at) from unnest(m.starts) as u (at) where u.at > clock.now - rule.key_rate_per) + rule.key_rate_per,
                                      clock.now + rule.key_rate_per)
                        else greatest(m.spent_until, clock.now) + rule.key_tau * (m.unclaimed + m.cost + m.needed - rule.key_burst) end
         end as again_at
    from clock, rule, moved m
), dropped as (
  delete from {schema}.lane where ctid = any(array(select place from next))
), added as (
  insert into {schema}.lane
         (limit_name, key, held, awaited, pass, after_priority, after_job, due_at, open_until, spent_until, failures, is_probing, pending,
          starts, start_costs)
  select %(limit)s::text, n.key, n.held + n.taken, true,
         case when not n.is_full and n.again_at is null and not n.is_exhausted
              then greatest(n.pass, s.next_pass) + ceil(n.taken * 1000 / n.weight)::bigint end,
         -- Fewer than there were: others have them locked, so that the next look begins where this one began.
         case when n.taken = n.quota or n.is_exhausted then coalesce(n.last[1], n.after_priority) else n.after_priority end,
         case when n.taken = n.quota or n.is_exhausted then coalesce(n.last[2], n.after_job) else n.after_job end,
         case when n.again_at is not null and not n.is_exhausted then n.again_at
              when n.closed is not null then n.closed_until end,
         n.open_until, n.spent_until, n.failures, n.is_probing or n.is_half_open and n.taken > 0,
         case when rule.key_rate is not null then nullif(coalesce(n.pending, '{}') || coalesce(n.ids, '{}'), '{}') end,
         n.starts, n.start_costs
    from clock, rule, state s, next n
   where n.held + n.taken <> 0 or not n.is_exhausted or n.pending is not null or n.spent_until > clock.now or coalesce(n.failures, 0) > 0
), old_state as (
  delete from {schema}.limit_state where ctid = any(array(select place from state)) and exists (select from picked)
), new_state as (
  insert into {schema}.limit_state
         (limit_name, next_pass, open_until, spent_until, held, failures, is_probing, pending, turn, turn_before, starts, start_costs,
          rule_changed_at)
  select %(limit)s::text, greatest(s.next_pass, (select max(pass) from picked)), s.open_until, s.spent_until,
         s.held + (select count(*) from picked)::int, s.failures, s.is_probing or room.is_half_open,
         case when rule.rate is not null then coalesce(s.pending, '{}') || array(select job from picked order by number) end,
         case when rule.is_fair
              then array(select (max(array[priority, job]))[2] from picked where next_limit is null group by queue) end,
         case when rule.is_fair then s.turn end,
         s.starts, s.start_costs, s.rule_changed_at
    from rule, room, state s
   where exists (select from picked)
), told as materialized (
  select pg_notify('{schema_name}.ready', queue) from (select distinct queue from picked where next_limit is null) q
)
select (select count(*) from picked)::int as admitted,
       array(select distinct next_limit from picked where next_limit is not null) as knocked,
       (select is_so from overtaken) and (select permits > 0 from room) as is_overtaken,
       (select min(pass) from lanes) as first,
       (select count(*) from next where taken = 0 and (is_exhausted or is_full or again_at is not null))::int as passed_over,
       extract(epoch from least(
         (select min(case when again_at is not null then again_at when closed is not null then closed_until end)
            from next where not is_exhausted),
         (select min(due_at) from {schema}.lane
           where limit_name = %(limit)s::text and due_at is not null and key not in (select key from next)),
         case when rule.is_closed then rule.closed_until end,
         case when s.open_until > clock.now then s.open_until end,
         -- When one more unit of the limit's rate is free.
         case when room.tokens - spent.cost < spent.needed and room.permits > 0
              then case when rule.is_strict
                        then coalesce((select min(u.at) from unnest(s.starts) as u (at) where u.at > clock.now - rule.rate_per) + rule.rate_per,
                                      clock.now + rule.rate_per)
                        else greatest(s.spent_until, clock.now)
                             + rule.tau * ((select cost from unclaimed) + spent.cost + spent.needed - rule.burst) end
         end) - clock.now)::float8 as again_in,
       (select coalesce(sum(extract(epoch from clock.now - ready_at)), 0) from clock, picked)::float8 as waited,
       (select count(*) from told)::int as told
  from clock, rule, state s, room, (
    select coalesce((select sum(cost) from picked), 0)::int as cost,
           coalesce((select needed from refused order by number limit 1), 1) as needed) spent
