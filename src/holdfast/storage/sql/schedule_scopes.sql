-- Make the scopes of one schedule those that are given, with args and zone of their own where they have them. One that is
-- new, or comes back, begins now: what would have been planned before it came was not missed. One that is not among them
-- fires no more, and its place is kept. Rows that stay as they are are not written.
-- Locks the schedule, then the rows that change, and waits for them; leans on schedule_scope_pkey.
-- Answers how many came, changed and went.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), held as materialized (
  select name from {schema}.schedule where name = %(schedule)s::text for no key update
), asked as materialized (
  select a.scope, a.args::jsonb as args, a.zone
    from held, unnest(%(scopes)s::text::text[], %(args)s::text::text[], %(zones)s::text::text[]) as a (scope, args, zone)
), changed as materialized (
  select a.scope, a.args, a.zone, c.scope is null or c.gone_at is not null as is_new
    from asked a
    left join lateral (
      select scope, args, zone, gone_at from {schema}.schedule_scope
       where schedule = %(schedule)s::text and scope = a.scope offset 0) c on true
   where c.scope is null or c.gone_at is not null or c.args is distinct from a.args or c.zone is distinct from a.zone
), written as (
  insert into {schema}.schedule_scope as c (schedule, scope, created_at, since_at, next_at, args, zone)
  select %(schedule)s::text, scope, clock.now, clock.now, clock.now, args, zone from clock, changed
  on conflict (schedule, scope) do update
     set args = excluded.args, zone = excluded.zone, next_at = excluded.next_at, gone_at = null, error = null,
         since_at = case when c.gone_at is not null or c.zone is distinct from excluded.zone
                         then excluded.since_at else c.since_at end
), gone as (
  update {schema}.schedule_scope
     set gone_at = clock.now, next_at = null, error = null
    from clock, held
   where schedule = held.name and gone_at is null and scope not in (select scope from asked)
  returning scope
), told as materialized (
  select pg_notify('{schema_name}.plan', %(schedule)s::text) where exists (select from changed)
)
select (select count(*) from changed where is_new)::int as came,
       (select count(*) from changed where not is_new)::int as changed,
       (select count(*) from gone)::int as went
  from (select count(*) from told) as everyone
