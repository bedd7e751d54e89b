-- Look at up to %(limit)s groups that have members behind the group %(after)s: there must be a row of job_group for them. Steps from group to
-- group. Locks nothing; leans on the primary keys of group_member and job_group.
-- Always answers a row: how many were looked at, and the last of them.
with recursive range as (
  (select job_group, 1 as number from {schema}.group_member where job_group > %(after)s::bigint order by job_group limit 1)
  union all
  select n.job_group, r.number + 1
    from range r
   cross join lateral (
     select job_group from {schema}.group_member where job_group > r.job_group order by job_group limit 1) n
   where r.number < %(limit)s::int
), found as (
  select job_group as job, 'leftover_members' as damage
    from range r
   where not exists (select from {schema}.job_group g where g.id = r.job_group offset 0)
)
select f.job, f.damage, seen.looked, seen.last
  from (select count(*)::int as looked, max(job_group) as last from range) seen
  left join found f on true
 order by f.job
