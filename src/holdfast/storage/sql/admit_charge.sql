-- Charge the rates of limit %(limit)s for jobs that it has admitted and that have started since: each at the moment at which its run began,
-- so that a rate counts starts and not admissions. What nobody has claimed yet stays pending. What left ready and never ran costs nothing. One that is at the
-- gate again has run meanwhile, as its newest run in the ledger says. Asked under the limit's lock, between admit_fold and admit_shared.
-- A rate is kept as the moment up to which it is used (the theoretical arrival time of GCRA): a start at t uses tau of the time from
-- the later of t and that moment on. For several starts at once: the largest of all sums, in one pass.
-- Leans on lane_pending and the keys of job, ready, lease and ledger. Answers how many were charged, and how many are pending still.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), {part effective_limit}, {part newest_state}, lanes as materialized (
  select ctid as place, key, pass, after_priority, after_job, due_at, open_until, spent_until, held, failures, is_probing, pending, starts,
         start_costs
    from {schema}.lane
   where limit_name = %(limit)s::text and pending is not null
), waiting as materialized (
  select key, job from lanes, unnest(pending) as p (job)
  union all
  select null, job from state, unnest(pending) as p (job)
), places as materialized (
  select w.job, r.job is not null as is_pending,
         case when r.job is null
              then coalesce(
                (select l.started_at from {schema}.worker k
                  cross join lateral (select started_at from {schema}.lease where worker = k.id and job = w.job offset 0) l
                  limit 1),
                (select f.started_at from {schema}.ledger f where f.job = w.job order by f.run desc limit 1)) end as started_at,
         coalesce(j.limit_costs[array_position(j.limits, %(limit)s::text)], 1) as cost
    from (select distinct job from waiting) w
    left join lateral (
      select queue, priority, limits, limit_costs from {schema}.job where id = w.job offset 0) j on true
    left join lateral (
      select job from {schema}.ready
       where queue = j.queue and priority = least(greatest(j.priority, 0), 9) and job = w.job and segment <> 8
       limit 1) r on true
), started as materialized (
  select w.key, p.job, p.cost, least(p.started_at, clock.now) as at,
         sum(p.cost) over (partition by w.key order by p.started_at, p.job rows between current row and unbounded following) as from_here
    from clock, waiting w
    join places p using (job)
   where not p.is_pending and p.started_at is not null
), charged as materialized (
  select s.key, sum(s.cost)::int as cost, max(s.at + case when s.key is null then rule.tau else rule.key_tau end * s.from_here) as until,
         array_agg(s.at order by s.at, s.job) as starts, array_agg(s.cost order by s.at, s.job) as costs
    from rule, started s
   group by s.key
), still as materialized (
  select w.key, array_agg(w.job order by w.job) as pending
    from waiting w
    join places p using (job)
   where p.is_pending
   group by w.key
), changed as materialized (
  select l.*, c.cost, c.until, c.starts as new_starts, c.costs as new_costs, s.pending as left_over
    from lanes l
    left join charged c on c.key = l.key
    left join still s on s.key = l.key
   where s.pending is distinct from l.pending
), dropped as (
  delete from {schema}.lane where ctid = any(array(select place from changed))
), added as (
  insert into {schema}.lane
         (limit_name, key, held, awaited, pass, after_priority, after_job, due_at, open_until, spent_until, failures, is_probing, pending,
          starts, start_costs)
  select %(limit)s::text, c.key, c.held, true, c.pass, c.after_priority, c.after_job, c.due_at, c.open_until,
         case when rule.key_tau is not null then greatest(c.spent_until + rule.key_tau * coalesce(c.cost, 0), c.spent_until, c.until) end,
         c.failures, c.is_probing, c.left_over,
         case when rule.key_is_strict then kept.starts || c.new_starts end, case when rule.key_is_strict then kept.costs || c.new_costs end
    from rule, changed c
   cross join lateral (
     select coalesce(array_agg(k.at order by k.n), '{}') as starts, coalesce(array_agg(k.cost order by k.n), '{}') as costs
       from clock, unnest(c.starts, c.start_costs) with ordinality as k (at, cost, n)
      where k.at > clock.now - rule.key_rate_per) kept
), old_state as (
  delete from {schema}.limit_state
   where ctid = any(array(select place from state where pending is not null))
), new_state as (
  insert into {schema}.limit_state
         (limit_name, next_pass, open_until, spent_until, held, failures, is_probing, pending, turn, turn_before, starts, start_costs,
          rule_changed_at)
  select %(limit)s::text, s.next_pass, s.open_until,
         case when rule.tau is not null then greatest(s.spent_until + rule.tau * coalesce(c.cost, 0), s.spent_until, c.until) end,
         s.held, s.failures, s.is_probing, l.pending, s.turn, s.turn_before,
         case when rule.is_strict then kept.starts || c.starts end, case when rule.is_strict then kept.costs || c.costs end,
         s.rule_changed_at
    from rule, state s
    left join charged c on c.key is null
    left join still l on l.key is null
   cross join lateral (
     select coalesce(array_agg(k.at order by k.n), '{}') as starts, coalesce(array_agg(k.cost order by k.n), '{}') as costs
       from clock, unnest(s.starts, s.start_costs) with ordinality as k (at, cost, n)
      where k.at > clock.now - rule.rate_per) kept
   where s.pending is not null
)
select (select count(*) from started)::int as charged, (select count(*) from places where is_pending)::int as pending
