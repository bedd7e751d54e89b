-- Put scopes off that cannot be planned, with what is wrong with them: they are looked at again after %(wait)s, or when
-- a caller changes them, and hold up no other. Skips locked rows; leans on schedule_scope_pkey. Answers how many.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), refused as materialized (
  select c.place, a.error
    from unnest(%(schedules)s::text[], %(scopes)s::text[], %(errors)s::text[]) as a (schedule, scope, error)
   cross join lateral (
     select ctid as place from {schema}.schedule_scope
      where schedule = a.schedule and scope = a.scope
        for update skip locked) c
), put_off as (
  update {schema}.schedule_scope c
     set next_at = clock.now + %(wait)s::interval, error = r.error
    from clock, refused r
   where c.ctid = r.place
)
select count(*)::int from refused
