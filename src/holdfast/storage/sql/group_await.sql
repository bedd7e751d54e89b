-- Remember the first member of an open group that has not ended. Locks the row; leans on its primary key. Answers the id.
update {schema}.job_group set awaited_place = %(place)s::int
 where id = %(job_group)s::bigint and closed_at is null
returning id
