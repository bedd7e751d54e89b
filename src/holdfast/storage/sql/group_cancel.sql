-- Ask for a group to be cancelled: the leader cancels its members, and nothing follows them. Once is enough: the first reason stays.
-- Locks the row; leans on its primary key. Answers what became of it: cancelling, final if it has ended, with the job that follows if it is closed.
-- No row: there is no such group.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), asked as materialized (
  select id, ended_at, closed_at, then_job, members, cancelled_at from {schema}.job_group
   where id = %(job_group)s::bigint
     for no key update
), changed as (
  update {schema}.job_group g
     set cancelled_at = coalesce(g.cancelled_at, clock.now), cancel_reason = coalesce(g.cancel_reason, %(reason)s::text)
    from clock
   where g.id = %(job_group)s::bigint and exists (select from asked where ended_at is null)
  returning pg_notify('{schema_name}.group', '')
)
select case when a.ended_at is null then 'cancelling' else 'final' end as answer, a.then_job, a.members
  from asked a, (select count(*) from changed) as everyone
