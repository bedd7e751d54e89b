-- A page of flows, newest first: those that have done something or wait, and those of the kinds in %(known)s that have not
-- begun, if they are among the latest %(searched)s jobs. Only before %(before)s, of %(kind)s, in %(state)s, where given.
-- Of one that waits to go on, `error` is the last, as in find.sql; `until` is when what it waits for is late at the latest, not
-- when an event that it has refused is looked at again.
-- Locks nothing. Begun flows are found by hopping through the primary key of checkpoint, one probe for each, so that it
-- does not matter how many steps each of them has; no more than %(hops)s are found, and the states of no more than
-- %(looks)s looked up.
with recursive begun as (
  (select job, 1 as turn from {schema}.checkpoint
    where job < coalesce(%(before)s::bigint, 9223372036854775807) order by job desc limit 1)
  union all
  select c.job, b.turn + 1
    from begun b
   cross join lateral (select job from {schema}.checkpoint where job < b.job order by job desc limit 1) c
   where b.turn < %(hops)s::int
), recent as (
  select id
    from (select id, kind from {schema}.job
           where id < coalesce(%(before)s::bigint, 9223372036854775807)
           order by id desc limit %(searched)s::int) latest
   where kind = any(%(known)s::text[])
), known as materialized (
  select job
    from (select b.job
            from begun b
           cross join lateral (select kind from {schema}.job where id = b.job offset 0) j
           where %(kind)s::text is null or j.kind = %(kind)s::text
           union
          select id from recent) f
   order by job desc
   limit %(looks)s::int
), page as materialized (
  select j.*
    from known k
   cross join lateral (
     select id, kind, queue, state, attempt, max_attempts, created_at, run_at, started_at, finished_at, error
       from {schema}.jobs where id = k.job offset 0) j
   where %(state)s::text is null or j.state = %(state)s::text
   order by j.id desc
   limit %(limit)s::int
)
select p.id as job, p.kind, p.queue, p.state, p.attempt, p.max_attempts, p.created_at, p.finished_at,
       c.done, s.name as step, w.waits_for,
       case when e.kind = 'event' then e.until else coalesce(w.until, p.run_at) end as until,
       coalesce(p.error, e.error, l.error)::text as error,
       coalesce(%(now)s::timestamptz, statement_timestamp()) as now
  from page p
 cross join lateral (select count(*) filter (where is_done)::int as done from {schema}.checkpoint where job = p.id) c
  left join lateral (
    select name from {schema}.checkpoint where job = p.id
     order by is_done, case when is_done then written_at end desc, place desc nulls last, written_at desc limit 1) s on true
  left join lateral (
    select g.until,
           (select min(coalesce(key, name)) from {schema}.wait where job = g.job) as waits_for
      from {schema}.waiting g where g.job = p.id offset 0) w on true
  left join lateral (
    select c.error, c.kind, (select min(o.until) from {schema}.checkpoint o where o.job = p.id and not o.is_done) as until
      from {schema}.checkpoint c
     where c.job = p.id and not c.is_done and c.error is not null
     order by c.kind <> 'event'
     limit 1) e on p.state = 'waiting'
  left join lateral (
    select error from {schema}.ledger
     where job = p.id and (outcome <> 'released' or error is not null)
     order by run desc
     limit 1) l on p.state in ('ready', 'scheduled')
 order by p.id desc
