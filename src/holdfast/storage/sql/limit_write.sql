-- Write limits as they count from now on, one element of each array for each of them, in ascending order of names; and have the leader look
-- at them. is_direct is cleared: only the leader sets it again, when it has seen what the change means for the permits that are held.
-- %(declares)s: it is code that declares them, which brings a removed limit back. Locks limit_rule rows in that order. Answers their names.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select *
    from unnest(%(names)s::text[], %(declareds)s::text[], %(overrides)s::text[], %(totals)s::int[], %(per_keys)s::int[],
                %(rates)s::int[], %(rate_pers)s::interval[], %(bursts)s::int[], %(stricts)s::boolean[],
                %(key_rates)s::int[], %(key_rate_pers)s::interval[], %(key_bursts)s::int[], %(key_stricts)s::boolean[],
                %(fairs)s::boolean[], %(directs)s::boolean[], %(holds)s::text[], %(breakers)s::text[])
         as a (name, declared, overrides, total, per_key, rate, rate_per, burst, is_strict, key_rate, key_rate_per, key_burst, key_is_strict,
               is_fair, may_be_direct, hold, breaker)
   order by name
), written as (
  insert into {schema}.limit_rule as r
         (name, declared_at, changed_at, declared, overrides, total, per_key, rate, rate_per, burst, is_strict, key_rate, key_rate_per,
          key_burst, key_is_strict, is_fair, may_be_direct, hold, breaker)
  select a.name, clock.now, clock.now, a.declared::jsonb, a.overrides::jsonb, a.total, a.per_key, a.rate, a.rate_per, a.burst, a.is_strict,
         a.key_rate, a.key_rate_per, a.key_burst, a.key_is_strict, a.is_fair, a.may_be_direct, a.hold, a.breaker::jsonb
    from clock, asked a
  on conflict (name) do update
     set declared_at = case when %(declares)s::boolean then excluded.declared_at else r.declared_at end,
         removed_at = case when %(declares)s::boolean then null else r.removed_at end,
         changed_at = greatest(excluded.changed_at, r.changed_at + interval '1 microsecond'), is_direct = false,
         declared = excluded.declared, overrides = excluded.overrides, total = excluded.total, per_key = excluded.per_key,
         rate = excluded.rate, rate_per = excluded.rate_per, burst = excluded.burst, is_strict = excluded.is_strict,
         key_rate = excluded.key_rate, key_rate_per = excluded.key_rate_per, key_burst = excluded.key_burst,
         key_is_strict = excluded.key_is_strict, is_fair = excluded.is_fair, may_be_direct = excluded.may_be_direct,
         hold = excluded.hold, breaker = excluded.breaker
  returning r.name
), knocked as (
  insert into {schema}.knock (limit_name, key, given) select name, '', 0 from written
), told as materialized (
  select pg_notify('{schema_name}.gate', '')
)
select name from written, (select count(*) from told) as everyone
