-- Close a group, in the transaction that has locked it and enqueued what follows. Without %(then_job)s nothing follows, and the group
-- has ended. Leans on its primary key. Answers the id.
update {schema}.job_group g
   set closed_at = clock.now, then_job = %(then_job)s::bigint, has_failed = %(has_failed)s::boolean,
       succeeded = %(succeeded)s::int, failed = %(failed)s::int, cancelled = %(cancelled)s::int, expired = %(expired)s::int,
       gone = %(gone)s::int, awaited_place = g.members, cancelled_place = g.members,
       ended_at = case when %(then_job)s::bigint is null then clock.now end,
       keep_until = case when %(then_job)s::bigint is null then clock.now + %(keep)s::interval end
  from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) clock
 where g.id = %(job_group)s::bigint
returning g.id
