-- Limit %(limit)s as `rule`, with what its statements ask for again and again: how long one unit of a rate takes (tau), what opens its
-- breaker and for how long, and whether it is closed. Nothing is limited once it was removed.
rule as materialized (
  select r.total, r.per_key, r.rate, r.burst, r.is_strict, r.rate_per, r.key_rate, r.key_burst, r.key_is_strict, r.key_rate_per,
         r.rate_per / r.rate as tau, r.key_rate_per / r.key_rate as key_tau, r.is_fair, r.removed_at is not null as is_removed,
         (r.breaker ->> 'failures')::int as opens_after, make_interval(secs => (r.breaker ->> 'pause')::float8) as pause,
         coalesce((r.breaker ->> 'per_key')::boolean, false) as is_per_key,
         r.closed_at is not null and (r.closed_until is null or r.closed_until > clock.now) as is_closed, r.closed_until
    from clock, (
      select total, per_key, rate, burst, is_strict, rate_per, key_rate, key_burst, key_is_strict, key_rate_per, is_fair, removed_at,
             breaker, closed_at, closed_until
        from {schema}.limit_rule
       where name = %(limit)s::text and removed_at is null
      union all
      select null, null, null, null, false, null, null, null, false, null, false, removed_at, null, null, null
        from {schema}.limit_rule
       where name = %(limit)s::text and removed_at is not null) r
)
