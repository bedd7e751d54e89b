-- Lock a worker's row before it is retired: waits for a claim of this worker that is under way, and holds off the
-- next one. No row means that it is gone already.
select id from {schema}.worker where id = %(worker)s::bigint for update
