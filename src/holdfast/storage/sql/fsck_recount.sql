-- Write down how many permits jobs really hold, in the lanes that count others, and have the leader make the state of these limits anew. Their
-- permits are handed on by the leader until it has done so. Locks their lanes, waiting for others. Answers a number for each lane.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), {part permits_by_places}, limits as materialized (
  select limit_name from miscounted
  union
  select s.limit_name
    from (select distinct on (limit_name) limit_name, held from {schema}.limit_state order by limit_name, version desc) s
    left join (select limit_name, sum(held)::int as held from counted group by limit_name) l using (limit_name)
   where s.held <> coalesce(l.held, 0)
), changed as (
  update {schema}.limit_rule r
     set is_direct = false, changed_at = greatest(clock.now, r.changed_at + interval '1 microsecond')
    from clock, limits l
   where r.name = l.limit_name
), gone as (
  delete from {schema}.lane l using miscounted m where l.limit_name = m.limit_name and l.key = m.key
), added as (
  insert into {schema}.lane (limit_name, key, held, awaited) select limit_name, key, held, true from miscounted where held <> 0
), correct as materialized (
  select limit_name, sum(held)::int as held
    from (select limit_name, held from miscounted
          union all
          select limit_name, held from counted where (limit_name, key) not in (select limit_name, key from miscounted)) lanes
   group by limit_name
), summed as (
  update {schema}.limit_state s
     set held = coalesce((select held from correct c where c.limit_name = s.limit_name), 0)
   where s.limit_name in (select limit_name from limits)
), knocked as (
  insert into {schema}.knock (limit_name, key, given) select limit_name, '', 0 from limits
), told as materialized (
  select pg_notify('{schema_name}.gate', '')
)
select row_number() over ()::int as number from limits, (select count(*) from told) as everyone
