-- Which limits have knocks: of the known %(names)s those with one from %(sinces)s on, and of unknown ones the first between any two
-- known, so that dead entries are not stepped over again and again while a transaction holds an old snapshot. With
-- %(with_states)s also those whose keys are counted together, for a leader who does not know when they want another look.
-- No row: nothing to do. Locks nothing; leans on the primary keys of knock and limit_state.
with known as materialized (
  select u.name, u.since from unnest(%(names)s::text[], %(sinces)s::bigint[]) as u (name, since)
), gaps as materialized (
  select name as after, lead(name) over (order by name) as before from known
  union all
  select '', min(name) from known
)
select k.name as limit_name
  from known k
 where exists (select from {schema}.knock n where n.limit_name = k.name and n.id >= k.since offset 0)
union
select f.limit_name
  from gaps g
 cross join lateral (
   select n.limit_name from {schema}.knock n
    where n.limit_name > g.after and n.limit_name < g.before order by n.limit_name limit 1) f
 where g.before is not null
union
select f.limit_name
  from gaps g
 cross join lateral (
   select n.limit_name from {schema}.knock n where n.limit_name > g.after order by n.limit_name limit 1) f
 where g.before is null
union
select limit_name from {schema}.limit_state where %(with_states)s::boolean
