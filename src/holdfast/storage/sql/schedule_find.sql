-- Schedules with where they stand, in the order of their names: one, or all of them (NULL).
-- Orphaned: once declared by code, but not by a live worker for three minutes. Without a live worker this is unknown, and so
-- is whether its kind is known. Leans on schedule_pkey and schedule_scope_pkey; reads the scopes of what it shows.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
select s.name, s.version, s.created_at, s.changed_at, s.declared_at, s.has_scopes, s.timing::text, s.rules::text, s.history,
       s.paused_at, s.paused_until, s.pause_note, s.kind, s.queue, s.priority, s.max_attempts, s.args::text, s.on_lost,
       s.timeout, s.keep, s.tags, coalesce(s.error, c.error) as error,
       coalesce(s.paused_at is not null and (s.paused_until is null or s.paused_until > clock.now), false) as is_paused,
       s.declared_at is not null and s.declared_at < clock.now - interval '3 minutes'
         and exists (select from {schema}.worker w where w.lost_at is null and w.expires_at > clock.now) as is_orphaned,
       not exists (select from {schema}.worker w where w.lost_at is null and w.expires_at > clock.now)
         or exists (select from {schema}.worker w
                     where w.lost_at is null and w.expires_at > clock.now and s.kind = any(w.kinds)) as is_kind_known,
       c.scopes, c.failing, c.last_plan_at, c.next_at, clock.now
  from clock, {schema}.schedule s
 cross join lateral (
   select count(*)::int as scopes, count(error)::int as failing, min(error) as error, max(last_plan_at) as last_plan_at,
          min(next_at) as next_at
     from {schema}.schedule_scope where schedule = s.name and gone_at is null) c
 where %(name)s::text is null or s.name = %(name)s::text
 order by s.name
