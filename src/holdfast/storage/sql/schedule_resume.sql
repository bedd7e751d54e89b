-- Let one schedule fire again: its pause ends now, and stays known, as plans within it may not be decided yet.
-- Answers whether it was paused; no row: there is none of that name.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), known as materialized (
  select name, paused_at is not null and (paused_until is null or paused_until > clock.now) as was_paused
    from clock, {schema}.schedule
   where name = %(name)s::text
     for update of schedule
), resumed as (
  update {schema}.schedule s
     set paused_until = clock.now, pause_note = null, version = version + 1
    from clock, known k
   where s.name = k.name and k.was_paused
  returning s.name
), told as materialized (
  select pg_notify('{schema_name}.plan', name) from resumed
)
select k.was_paused from known k, (select count(*) from told) as everyone
