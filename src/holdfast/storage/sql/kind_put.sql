-- Store what a worker's code declares of its kinds, one element of each array for a kind, in the order of their names: workers
-- that start together lock the rows in the same order. What another start has written is replaced, except that its secret
-- places stay secret. Answers the names, and what is secret by now.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
insert into {schema}.kind as known
       (name, first_seen_at, last_seen_at, priority, max_attempts, style, queue, version, parameters, backoff, timeout, keep,
        secrets, on_lost, tags, limits)
select k.name, clock.now, clock.now, k.priority, k.max_attempts, k.style, k.queue, %(version)s::text, k.parameters::jsonb,
       k.backoff::jsonb, k.timeout, k.keep, array(select jsonb_array_elements_text(k.secrets::jsonb)),
       k.on_lost, array(select jsonb_array_elements_text(k.tags::jsonb)), k.limits::jsonb
  from clock,
       unnest(%(names)s::text[], %(priorities)s::smallint[], %(max_attempts)s::smallint[], %(styles)s::text[],
              %(queues)s::text[], %(parameters)s::text[], %(backoffs)s::text[], %(timeouts)s::interval[], %(keeps)s::interval[],
              %(secrets)s::text[], %(on_losts)s::text[], %(tags)s::text[], %(limits)s::text[])
         as k (name, priority, max_attempts, style, queue, parameters, backoff, timeout, keep, secrets, on_lost, tags, limits)
 order by k.name
on conflict (name) do update
   set last_seen_at = excluded.last_seen_at, priority = excluded.priority, max_attempts = excluded.max_attempts,
       style = excluded.style, queue = excluded.queue, version = excluded.version, parameters = excluded.parameters,
       backoff = excluded.backoff, timeout = excluded.timeout, keep = excluded.keep, on_lost = excluded.on_lost, tags = excluded.tags,
       limits = excluded.limits,
       secrets = array(select distinct path from unnest(known.secrets || excluded.secrets) as path order by path)
returning name, secrets
