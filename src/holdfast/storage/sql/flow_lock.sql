-- Lock the keys of waits, in ascending order, until the end of the transaction: taken by a run that is about to wait, and by
-- the leader before it wakes. What they decide by is read in the next statement, which sees all that was committed under
-- the lock before. Keys share 1,024 locks, so that no number of them fills the server's table of locks.
with bucket as materialized (
  select distinct hashtext('{schema_name}:' || key) & 1023 as number
    from unnest(%(keys)s::text[]) as k (key)
   order by 1
)
select pg_advisory_xact_lock(1213156420, number)::text from bucket
