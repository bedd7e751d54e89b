-- Take up to %(most)s knocks of limit %(limit)s, oldest first from %(since)s on, and look at the lanes whose time has come: bring permits
-- back, give keys at which jobs wait their turn, and tell breakers and rates what became of runs. Asked under the limit's lock, before
-- admit_shared; only for a limit that is not direct.
-- A breaker counts failures in a row: a success in between starts again. It opens for its pause; after that one probe may pass, and a
-- success closes it; so does an operator who opens it: closed for no time. A lane that is closed gets no turn, but a time at which to look at it again.
-- Leans on knock_pkey, lane_pkey, lane_due, ready_gated_lane. Answers how many knocks were taken, and the last of them.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), {part effective_limit}, {part newest_state}, taken as materialized (
  delete from {schema}.knock
   where ctid = any(array(
     select ctid from {schema}.knock
      where limit_name = %(limit)s::text and id >= %(since)s::bigint
      order by id
      limit %(most)s::int))
  returning id, key, given, priority, job, failures, is_success, closed_for, spent
), due as materialized (
  select key
    from clock, {schema}.lane
   where limit_name = %(limit)s::text and due_at <= clock.now
   order by due_at
   limit %(most)s::int
), successes as materialized (
  select key, max(id) as last from taken where is_success group by key
), asked as materialized (
  select t.key, sum(t.given)::int as given, bool_or(t.given = 0 and t.closed_for is null and t.spent is null and t.is_success is null and t.failures is null) as came,
         min(coalesce(t.priority, -1)) as floor_priority, min(coalesce(t.job, 0)) as floor_job,
         max(t.closed_for) as closed_for, coalesce(sum(t.spent), 0)::int as spent, bool_or(s.last is not null) as succeeded,
         coalesce(bool_or(t.closed_for = interval '0'), false) as is_opened,
         coalesce(sum(t.failures) filter (where s.last is null or t.id >= s.last), 0)::int as failures
    from taken t
    left join successes s using (key)
   group by t.key
  union all
  select distinct key, 0, false, 10, 0, null::interval, 0, false, false, 0 from due where key not in (select key from taken)
), lanes as materialized (
  select a.*, l.place, coalesce(l.held, 0) - a.given as held_now, l.pass, l.after_priority, l.after_job, l.due_at, l.pending, l.starts,
         l.start_costs, l.open_until as was_open, l.failures as failed_before, coalesce(l.is_probing, false) as was_probing,
         l.spent_until as was_spent,
         rule.is_per_key and rule.opens_after is not null as has_breaker,
         case when a.is_opened then 0 when a.succeeded then a.failures else coalesce(l.failures, 0) + a.failures end as failed,
         -- Somebody waits: known of those who came, looked up for those who may have waited for what was given back.
         l.pass is not null or exists (
           select from {schema}.ready_gated g where g.limit_name = %(limit)s::text and g.limit_key = a.key offset 0) as waits
    from rule, asked a
    left join lateral (
      select ctid as place, held, pass, after_priority, after_job, due_at, open_until, spent_until, failures, is_probing, pending, starts,
             start_costs
        from {schema}.lane
       where limit_name = %(limit)s::text and key = a.key
       order by version desc
       limit 1) l on true
), judged as materialized (
  select l.*,
         case when l.is_opened then null
              when l.closed_for is not null then greatest(l.was_open, clock.now + l.closed_for)
              when not l.has_breaker then l.was_open
              when l.failures > 0 and l.failed >= rule.opens_after and (l.was_open is null or l.was_open <= clock.now)
              then clock.now + rule.pause
              when l.succeeded and l.failed < rule.opens_after then null
              else l.was_open end as open_until,
         case when rule.key_tau is not null and not rule.key_is_strict and l.spent > 0
              then greatest(l.was_spent, clock.now) + rule.key_tau * l.spent else l.was_spent end as spent_until,
         case when rule.key_is_strict and l.spent > 0 then l.starts || clock.now else l.starts end as new_starts,
         case when rule.key_is_strict and l.spent > 0 then l.start_costs || l.spent else l.start_costs end as new_costs
    from clock, rule, lanes l
), changed as materialized (
  select j.*,
         j.open_until > clock.now as is_shut,
         -- Somebody has come before the place up to which the lane was admitted; or it is a new one, which begins there.
         j.came and (j.place is null or (j.floor_priority, j.floor_job) <= (j.after_priority, j.after_job)) as is_early
    from clock, judged j
), dropped as (
  delete from {schema}.lane where ctid = any(array(select place from changed where place is not null))
), added as (
  insert into {schema}.lane
         (limit_name, key, held, awaited, pass, after_priority, after_job, due_at, open_until, spent_until, failures, is_probing, pending,
          starts, start_costs)
  select %(limit)s::text, c.key, c.held_now, true,
         case when c.is_shut is not true and c.waits then greatest(coalesce(c.pass, 0), s.next_pass) end,
         case when c.is_early then c.floor_priority else c.after_priority end,
         case when c.is_early then c.floor_job - 1 else c.after_job end,
         case when c.is_shut and c.waits then c.open_until
              when c.waits then null
              when c.spent_until > clock.now or c.is_shut then greatest(c.spent_until, c.open_until)
              when c.new_starts is not null then clock.now + rule.key_rate_per
              when c.has_breaker and c.failed > 0 then clock.now + interval '1 day' end,
         case when c.open_until > clock.now or c.has_breaker and c.failed >= rule.opens_after then c.open_until end,
         c.spent_until, case when c.has_breaker then c.failed end, c.was_probing and c.given = 0, c.pending, c.new_starts, c.new_costs
    from clock, rule, state s, changed c
   where c.held_now <> 0 or c.waits or c.pending is not null or c.is_shut or c.spent_until > clock.now
      or c.has_breaker and c.failed > 0 and c.due_at is distinct from null and c.due_at > clock.now
      or c.has_breaker and c.failures > 0
      or c.new_starts is not null and c.new_starts[cardinality(c.new_starts)] > clock.now - rule.key_rate_per
), together as materialized (
  select coalesce(sum(given), 0)::int as given, coalesce(sum(spent), 0)::int as spent,
         bool_or(is_success) is true as succeeded, coalesce(bool_or(closed_for = interval '0'), false) as is_opened,
         coalesce(sum(failures) filter (where id >= coalesce((select max(last) from successes), 0)), 0)::int as failures
    from taken
), old_state as (
  delete from {schema}.limit_state where ctid = any(array(select place from state)) and exists (select from taken)
), new_state as (
  insert into {schema}.limit_state
         (limit_name, next_pass, open_until, spent_until, held, failures, is_probing, pending, turn, turn_before, starts, start_costs,
          rule_changed_at)
  select %(limit)s::text, s.next_pass,
         case when t.is_opened then null
              when not n.has_breaker then s.open_until
              when t.failures > 0 and n.failed >= rule.opens_after and (s.open_until is null or s.open_until <= clock.now)
              then clock.now + rule.pause
              when t.succeeded and n.failed < rule.opens_after then null
              else s.open_until end,
         case when rule.tau is not null and not rule.is_strict and t.spent > 0
              then greatest(s.spent_until, clock.now) + rule.tau * t.spent else s.spent_until end,
         s.held - t.given, case when n.has_breaker then n.failed end, s.is_probing and t.given = 0, s.pending, s.turn, s.turn_before,
         case when rule.is_strict and t.spent > 0 then s.starts || clock.now else s.starts end,
         case when rule.is_strict and t.spent > 0 then s.start_costs || t.spent else s.start_costs end,
         s.rule_changed_at
    from clock, rule, state s, together t
   cross join lateral (
     select not rule.is_per_key and rule.opens_after is not null as has_breaker,
            case when t.is_opened then 0 when t.succeeded then t.failures else coalesce(s.failures, 0) + t.failures end as failed) n
   where exists (select from taken)
)
select (select count(*) from taken)::int as taken, (select max(id) from taken) as last, (select count(*) from due)::int as due
