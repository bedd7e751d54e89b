-- Charge the rates of limit %(limit)s with %(units)s more than its jobs have cost, for %(key)s, or for the key that %(job)s has in it. The leader counts
-- it; a rate may come to owe. Locks nothing. Answers the limit, or nothing if no code has declared it.
with known as (
  select r.name,
         coalesce(%(key)s::text, (select limit_keys[array_position(limits, r.name)] from {schema}.job where id = %(job)s::bigint), '') as key
    from {schema}.limit_rule r
   where r.name = %(limit)s::text
), knocked as (
  insert into {schema}.knock (limit_name, key, given, spent) select name, key, 0, %(units)s::int from known
), told as materialized (
  select pg_notify('{schema_name}.gate', '') from known
)
select name from known, (select count(*) from told) as everyone
