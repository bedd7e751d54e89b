-- Lock a group that is to be closed, so that only one leader does. Skips it if it is locked; leans on its primary key.
-- No row: it is closed already, or somebody else is at it.
select name, members, on_success::text, on_failure::text, cancelled_at is not null as is_cancelled
  from {schema}.job_group
 where id = %(job_group)s::bigint and closed_at is null
   for update skip locked
