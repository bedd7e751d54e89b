-- Set what one key of limit %(limit)s is allowed and weighs, in place of what the limit says; NULL leaves a value as it is, and %(forget)s
-- forgets all that was set. The leader looks at the limit again. Locks the limit, then its key. Answers the limit, or nothing if there is none.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), changed as (
  update {schema}.limit_rule
     set is_direct = false, changed_at = greatest(clock.now, changed_at + interval '1 microsecond')
    from clock
   where name = %(limit)s::text
  returning name
), forgotten as (
  delete from {schema}.limit_key
   where %(forget)s::boolean and limit_name = (select name from changed) and key = %(key)s::text
), written as (
  insert into {schema}.limit_key as k (limit_name, key, changed_at, per_key, weight)
  select name, %(key)s::text, clock.now, %(per_key)s::int, %(weight)s::real from clock, changed where not %(forget)s::boolean
  on conflict (limit_name, key) do update
     set changed_at = excluded.changed_at, per_key = coalesce(excluded.per_key, k.per_key), weight = coalesce(excluded.weight, k.weight)
), knocked as (
  insert into {schema}.knock (limit_name, key, given) select name, '', 0 from changed
), told as materialized (
  select pg_notify('{schema_name}.gate', '')
)
select name from changed, (select count(*) from told) as everyone
