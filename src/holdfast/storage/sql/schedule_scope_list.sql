-- The scopes of one schedule that fire, in the order of their names: one, or up to %(limit)s after %(after)s.
-- Leans on schedule_scope_pkey.
select scope, zone, args::text, since_at, last_plan_at, next_at, pruned_until, job, skips, error
  from {schema}.schedule_scope
 where schedule = %(schedule)s::text and gone_at is null
   and (%(scope)s::text is null or scope = %(scope)s::text)
   and (%(after)s::text is null or scope > %(after)s::text)
 order by scope
 limit %(limit)s::int
