-- Look at up to %(limit)s open groups behind the group %(after)s: one whose members have all ended must be closed within seconds, and one that is
-- closed must have a job that follows, or has followed. What happened within the last minute is left to the leader.
-- Locks nothing; leans on job_group_open and the primary keys of group_member, ledger and job.
-- Always answers a row: how many were looked at, and the last of them.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) - interval '1 minute' as then
), range as materialized (
  select id, created_at, closed_at, then_job, members, awaited_place from {schema}.job_group
   where ended_at is null and id > %(after)s::bigint
   order by id limit %(limit)s::int
), found as (
  select g.id as job, 'group_not_closed' as damage
    from range g, clock
   where g.closed_at is null and g.created_at < clock.then and not {part first_awaited}
     and not exists (
           select from {schema}.group_member m
             left join lateral (select finished_at from {schema}.ledger where job = m.job and is_final::int = 1 limit 1) f on true
            where m.job_group = g.id and m.place < g.members
              and coalesce(f.finished_at >= clock.then, exists (select from {schema}.job j where j.id = m.job offset 0))
           offset 0)
  union all
  select g.id, 'group_not_ended'
    from range g, clock
   where g.closed_at < clock.then
     and not exists (select from {schema}.job j where j.id = g.then_job offset 0)
     and not exists (select from {schema}.ledger f where f.job = g.then_job and f.finished_at >= clock.then offset 0)
)
select f.job, f.damage, seen.looked, seen.last
  from (select count(*)::int as looked, max(id) as last from range) seen
  left join found f on true
 order by f.job
