-- The next %(limit)s members of a group that is to be cancelled, without guests, which others have asked for; and why it is cancelled.
-- Locks nothing; leans on the primary keys of job_group, group_member and job. No row: there are none left.
select g.cancel_reason, m.place, case when j.parent = g.id then m.job end as job
  from {schema}.job_group g
 cross join lateral (
   select place, job from {schema}.group_member
    where job_group = g.id and place >= g.cancelled_place and place < g.members
    order by place
    limit %(limit)s::int) m
  left join lateral (select parent from {schema}.job where id = m.job offset 0) j on true
 where g.id = %(job_group)s::bigint and g.cancelled_at is not null and g.closed_at is null
 order by m.place
