-- Limits count as many permits as jobs hold: in each lane, and over all lanes where they are counted together. Of one moment, so that a job
-- that is moving is in one place.
-- Locks nothing. Reads all leases, knocks and lanes, and of ready the jobs of kinds that have limits. Always answers a row.
with {part permits_by_places}, sums as materialized (
  select s.limit_name
    from (select distinct on (limit_name) limit_name, held from {schema}.limit_state order by limit_name, version desc) s
    left join (select limit_name, sum(held)::int as held from counted group by limit_name) l using (limit_name)
   where s.held <> coalesce(l.held, 0)
)
select null::bigint as job,
       case when exists (select from miscounted) or exists (select from sums) then 'permits_miscounted' end as damage,
       (select count(*) from counted)::int as looked, null::bigint as last
