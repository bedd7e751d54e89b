-- How many permits of each (limit_name, key) are held, as `held_now`, by where jobs are: those in ready (not parked ones) or in lease hold all of their limits,
-- those at the gate of their second limit the first one, those that are scheduled or wait what they keep. Of ready only kinds that have
-- limits are looked up, and those of which a job is at a gate or runs.
limited_kinds as materialized (
  select name as kind from {schema}.kind where limits is not null
  union
  select kind from {schema}.ready_gated
  union
  select j.kind
    from {schema}.lease l
   cross join lateral (select kind from {schema}.job where id = l.job and limits is not null offset 0) j
), holding as (
  select p.limit_name, p.key
    from {schema}.lease l
   cross join lateral (select limits, limit_keys from {schema}.job where id = l.job and limits is not null offset 0) j
   cross join unnest(j.limits, j.limit_keys) as p (limit_name, key)
  union all
  select p.limit_name, p.key
    from {schema}.ready r
   cross join lateral (select limits, limit_keys from {schema}.job where id = r.job and limits is not null offset 0) j
   cross join unnest(j.limits, j.limit_keys) as p (limit_name, key)
   where r.segment < 8 and r.kind in (select kind from limited_kinds)
  union all
  select p.limit_name, p.key
    from {schema}.ready_gated g
   cross join lateral (select limits, limit_keys from {schema}.job where id = g.job offset 0) j
   cross join unnest(j.limits, j.limit_keys) as p (limit_name, key)
   where g.limit_name = j.limits[2] and p.limit_name = j.limits[1]
  union all
  select p.limit_name, p.key
    from (select job, holds from {schema}.scheduled where holds is not null
          union all select job, holds from {schema}.waiting where holds is not null) h
   cross join lateral (select limits, limit_keys from {schema}.job where id = h.job offset 0) j
   cross join unnest(j.limits, j.limit_keys) as p (limit_name, key)
   where p.limit_name = any(h.holds)
), held_now as materialized (
  select limit_name, key, count(*)::int as held from holding group by limit_name, key
), on_the_way as materialized (
  -- Given back, and not counted yet.
  select limit_name, key, sum(given)::int as given from {schema}.knock group by limit_name, key
), counted as materialized (
  select distinct on (limit_name, key) limit_name, key, held from {schema}.lane order by limit_name, key, version desc
), miscounted as materialized (
  select limit_name, key, coalesce(h.held, 0) + coalesce(w.given, 0) as held
    from held_now h
    full join counted c using (limit_name, key)
    full join on_the_way w using (limit_name, key)
   where coalesce(h.held, 0) + coalesce(w.given, 0) <> coalesce(c.held, 0)
)
