-- Up to %(limit)s rows of {table} whose deadline has passed, from %(since)s on, longest ago first; locked ones are skipped.
-- Leans on the partial index on deadline_at.
from {schema}.{table}
   where deadline_at is not null and deadline_at <= (select now from clock)
     and deadline_at >= coalesce(%(since)s::timestamptz, '-infinity')
   order by deadline_at
   limit %(limit)s::int
     for update skip locked
