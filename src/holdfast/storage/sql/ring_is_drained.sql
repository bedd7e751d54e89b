-- Whether a closed segment is really empty. Asked under its lock, in a statement of its own: an insert in flight
-- holds its lock until it commits, so whatever was committed is seen here. The ring row is locked, so that
-- nobody makes the segment current meanwhile.
select not exists (select from {schema}.ready_{segment} where ctid >= '(0,0)') as is_drained
  from {schema}.ring
 where closed = {segment} and current <> {segment}
   for update
