-- Close limit %(limit)s, or only its %(key)s: nothing passes, until %(until)s, for %(length)s, or until it is opened. With %(opens)s, open it: also
-- a key or a limit that its breaker or a handler has closed. The leader looks at it again. Locks the limit, then its key.
-- %(job)s: its handler asks for it; without a key it is that of the job, and it ends no earlier than what is set already.
-- Answers the limit, until when it is closed, and whether it was closed before; nothing if there is no such limit.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select nullif(coalesce(%(key)s::text,
                         (select limit_keys[array_position(limits, %(limit)s::text)] from {schema}.job where id = %(job)s::bigint)), '') as key
), was as materialized (
  select r.name, case when asked.key is null then r.closed_at else k.closed_at end is not null as is_closed,
         coalesce(%(until)s::timestamptz, clock.now + %(length)s::interval) as until
    from clock
   cross join asked
   cross join {schema}.limit_rule r
    left join {schema}.limit_key k on k.limit_name = r.name and k.key = asked.key
   where r.name = %(limit)s::text
     for no key update of r
), changed as (
  update {schema}.limit_rule r
     set is_direct = false, changed_at = greatest(clock.now, r.changed_at + interval '1 microsecond'),
         closed_at = case when asked.key is not null then r.closed_at when %(opens)s::boolean then null else clock.now end,
         closed_until = case when asked.key is not null then r.closed_until
                             when %(opens)s::boolean then null
                             when %(job)s::bigint is null then was.until
                             when r.closed_at is not null and r.closed_until is null then null
                             else greatest(r.closed_until, was.until) end,
         closed_reason = case when asked.key is not null then r.closed_reason when %(opens)s::boolean then null else %(reason)s::text end
    from clock, asked, was
   where r.name = was.name
), key_changed as (
  insert into {schema}.limit_key as k (limit_name, key, changed_at, closed_at, closed_until, closed_reason)
  select was.name, asked.key, clock.now, clock.now, was.until, %(reason)s::text
    from clock, asked, was
   where asked.key is not null and not %(opens)s::boolean
  on conflict (limit_name, key) do update
     set changed_at = excluded.changed_at, closed_at = excluded.closed_at,
         closed_until = case when %(job)s::bigint is null then excluded.closed_until
                             when k.closed_at is not null and k.closed_until is null then null
                             else greatest(k.closed_until, excluded.closed_until) end,
         closed_reason = case when %(job)s::bigint is null or k.closed_at is null then excluded.closed_reason else k.closed_reason end
), key_opened as (
  update {schema}.limit_key k
     set changed_at = clock.now, closed_at = null, closed_until = null, closed_reason = null
    from clock, asked, was
   where k.limit_name = was.name and k.key = asked.key and %(opens)s::boolean
), knocked as (
  insert into {schema}.knock (limit_name, key, given, closed_for)
  select name, coalesce(asked.key, ''), 0, case when %(opens)s::boolean then interval '0' end from asked, was
), told as materialized (
  select pg_notify('{schema_name}.gate', '')
)
select name, until, is_closed as was_closed from was, (select count(*) from told) as everyone
