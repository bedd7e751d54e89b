-- Give permits back: of each job in {of} (limits, limit_keys, kept, held) those behind the first `kept` and up to the `held`th. A knock
-- for each key tells the leader.
given_back as (
  insert into {schema}.knock (limit_name, key, given)
  select p.name, coalesce(p.key, ''), count(*)::int
    from {of} o
   cross join lateral unnest(o.limits, o.limit_keys) with ordinality as p (name, key, n)
   where o.limits is not null and p.n > o.kept and p.n <= o.held and p.name is not null
   group by 1, 2
  returning pg_notify('{schema_name}.gate', '')
)
