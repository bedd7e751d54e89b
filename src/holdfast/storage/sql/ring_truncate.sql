-- Empty a closed segment, dead rows included, unless it still has rows or is no longer closed.
-- One statement, so that no round trip lies under the lock: every read of ready_{segment} waits behind it, and a leader
-- that is frozen between two statements would hold all of them up. Fails at once where the segment is in use: a lock
-- that waits would stall every claim behind it.
-- The look for rows has a snapshot of its own, taken under the lock: an insert in flight holds its lock until it
-- commits, so whatever was committed is seen. The ring row is locked, so that no other leader makes the segment current meanwhile.
do $clear$
begin
  lock table {schema}.ready_{segment} in access exclusive mode nowait;
  perform from {schema}.ring where closed = {segment} and current <> {segment} for update;
  if found and not exists (select from {schema}.ready_{segment} where ctid >= '(0,0)') then
    truncate {schema}.ready_{segment};
  end if;
end $clear$
