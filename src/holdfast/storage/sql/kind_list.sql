-- What is known of kinds, by name: all, or those named, with how many live workers know each. A page behind %(after)s.
-- Leans on the primary key. Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), alive as materialized (
  select w.kinds from {schema}.worker w, clock where w.lost_at is null and w.expires_at > clock.now
)
select k.name, k.style, k.queue, k.priority, k.max_attempts, k.backoff::text, k.timeout, k.keep, k.parameters::text, k.secrets,
       k.on_lost, k.tags, k.version, k.first_seen_at, k.last_seen_at,
       (select count(*) from alive a where k.name = any(a.kinds)) as workers, k.limits::text as stored_limits
  from {schema}.kind k
 where (%(names)s::text[] is null or k.name = any(%(names)s::text[]))
   and k.name > coalesce(%(after)s::text, '')
 order by k.name
 limit %(limit)s::int
