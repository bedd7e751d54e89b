-- The first operation that has not ended. Leans on operation_running. Locks nothing.
select id from {schema}.operation where ended_at is null order by id limit 1
