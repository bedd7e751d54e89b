-- Let nobody else admit jobs of %(limit)s until the end of this transaction. A statement of its own: what is counted in the statement
-- that waits for a lock was counted before the lock was there. Answers the limit.
select %(limit)s::text as limit_name
  from (select pg_advisory_xact_lock(1213156421, hashtext('{schema_name}:' || %(limit)s::text))) as locked
