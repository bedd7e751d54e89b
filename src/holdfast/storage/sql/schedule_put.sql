-- Write one schedule, declared by code or stored on request: new, or over what is there under its name. What an operator
-- has set (a pause) and how far its scopes have come stays. A new timing counts from now on; after any change the
-- planner looks at its scopes at once, and fires that were planned before it are void (version).
-- Answers whether it is new and whether anything changed; no row: the name belongs to a schedule of the other sort, and
-- nothing was written. Locks the schedule, then its scopes, and waits for both.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), known as materialized (
  select version, timing from {schema}.schedule where name = %(name)s::text
), written as (
  insert into {schema}.schedule as s
         (name, created_at, changed_at, declared_at, has_scopes, timing, rules, history, priority, max_attempts, kind,
          queue, args, backoff, timeout, keep, on_lost, tags)
  select %(name)s::text, now, now, case when %(is_declared)s::boolean then now end, %(has_scopes)s::boolean,
         %(timing)s::text::jsonb, %(rules)s::text::jsonb, %(history)s::interval, %(priority)s::smallint,
         %(max_attempts)s::smallint, %(kind)s::text, %(queue)s::text, %(args)s::text::jsonb, %(backoff)s::text::jsonb,
         %(timeout)s::interval, %(keep)s::interval, %(on_lost)s::text, %(tags)s::text::text[]
    from clock
  on conflict (name) do update
     set version = s.version
           + ((s.has_scopes, s.timing, s.rules, s.history, s.priority, s.max_attempts, s.kind, s.queue, s.args, s.backoff,
               s.timeout, s.keep, s.on_lost, s.tags) is distinct from
              (excluded.has_scopes, excluded.timing, excluded.rules, excluded.history, excluded.priority,
               excluded.max_attempts, excluded.kind, excluded.queue, excluded.args, excluded.backoff, excluded.timeout,
               excluded.keep, excluded.on_lost, excluded.tags))::int,
         changed_at = excluded.changed_at, declared_at = excluded.declared_at, has_scopes = excluded.has_scopes,
         timing = excluded.timing, rules = excluded.rules, history = excluded.history, priority = excluded.priority,
         max_attempts = excluded.max_attempts, kind = excluded.kind, queue = excluded.queue, args = excluded.args,
         backoff = excluded.backoff, timeout = excluded.timeout, keep = excluded.keep, on_lost = excluded.on_lost,
         tags = excluded.tags, error = null
   where (s.declared_at is null) = (excluded.declared_at is null)
  returning s.version, s.timing
), judged as materialized (
  select k.version is null as is_new, w.version is distinct from k.version as is_changed,
         k.version is not null and w.timing is distinct from k.timing as is_other_timing
    from written w left join known k on true
), moved as (
  update {schema}.schedule_scope
     set next_at = clock.now, since_at = case when j.is_other_timing then clock.now else since_at end, error = null
    from clock, judged j
   where j.is_changed and not j.is_new and schedule = %(name)s::text and gone_at is null
), told as materialized (
  select pg_notify('{schema_name}.plan', %(name)s::text) from judged where is_changed
)
select j.is_new, j.is_changed from judged j, (select count(*) from told) as everyone
