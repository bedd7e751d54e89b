-- Lock up to %(limit)s dead letters of a group of failures behind job %(after)s, in ascending order, for a verb that acts on them in the same
-- transaction: nobody else can let them run again meanwhile. Skips locked ones. No row: none is left.
-- Leans on dead_fingerprint: rows are compared, and not each column, so that no other index can serve, whatever the statistics say.
select job
  from {schema}.dead
 where fingerprint is not null
   and (fingerprint, job) > (%(fingerprint)s::text, coalesce(%(after)s::bigint, 0))
   and (fingerprint, job) <= (%(fingerprint)s::text, 9223372036854775807)
 order by fingerprint, job
 limit %(limit)s::int
   for update skip locked
