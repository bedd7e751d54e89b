-- Make the lanes of limit %(limit)s anew, and its state: after its settings have changed, and when its permits are no longer handed on
-- directly. Every key at which jobs wait gets a turn. Asked under the limit's lock, while is_direct is off.
-- Each lane is deleted and inserted: a settle that still believes the limit to be direct may delete a lane too. Either it was first,
-- and its permits are not counted here; or it finds the lane gone, and knocks.
-- Steps from key to key along ready_gated_lane, however many jobs each has. Answers how many lanes there are, and how many wait.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), {part newest_state}, gone as (
  delete from {schema}.lane where limit_name = %(limit)s::text
  returning version, key, held, due_at, open_until, spent_until, failures, is_probing, pending, starts, start_costs
), kept as materialized (
  select distinct on (key) key, held, open_until, spent_until, failures, is_probing, pending, starts, start_costs
    from gone
   order by key, version desc
), keys as (
  (select limit_key as key from {schema}.ready_gated where limit_name = %(limit)s::text order by limit_key limit 1)
  union all
  select n.key
    from keys k
   cross join lateral (
     select limit_key as key from {schema}.ready_gated
      where limit_name = %(limit)s::text and limit_key > k.key
      order by limit_key
      limit 1) n
), lanes as materialized (
  select coalesce(k.key, w.key) as key, coalesce(k.held, 0) as held, k.open_until, k.spent_until, k.failures,
         coalesce(k.is_probing, false) as is_probing, k.pending, k.starts, k.start_costs, w.key is not null as waits
    from kept k
    full join keys w using (key)
), added as (
  insert into {schema}.lane
         (limit_name, key, held, awaited, pass, due_at, open_until, spent_until, failures, is_probing, pending, starts, start_costs)
  select %(limit)s::text, key, held, true, case when waits then coalesce((select next_pass from state), 1) end,
         case when not waits then greatest(open_until, spent_until, clock.now) end,
         open_until, spent_until, failures, is_probing, pending, starts, start_costs
    from clock, lanes
   where held > 0 or waits or pending is not null or spent_until > clock.now or open_until > clock.now
), old_state as (
  delete from {schema}.limit_state where limit_name = %(limit)s::text
), new_state as (
  insert into {schema}.limit_state
         (limit_name, next_pass, open_until, spent_until, held, failures, is_probing, pending, starts, start_costs, rule_changed_at)
  select %(limit)s::text, coalesce(s.next_pass, 1), s.open_until, s.spent_until, coalesce((select sum(held) from lanes), 0), s.failures,
         coalesce(s.is_probing, false), s.pending, s.starts, s.start_costs, r.changed_at
    from {schema}.limit_rule r
    left join state s on true
   where r.name = %(limit)s::text
)
select count(*)::int as lanes, (count(*) filter (where waits))::int as waiting from lanes
