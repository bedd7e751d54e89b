-- Delete the places of members of groups that are gone. An id is never given to another group, so nothing can come between.
-- Leans on the primary keys of group_member and job_group. Answers the groups.
with dropped as (
  delete from {schema}.group_member m
   where m.job_group = any(%(jobs)s::bigint[])
     and not exists (select from {schema}.job_group g where g.id = m.job_group offset 0)
  returning m.job_group
)
select distinct job_group from dropped
