-- Mark workers whose lease has run out as lost: from now on they can neither claim nor renew.
-- So are those whose lease is longer than any that can be asked for: damaged by hand, they would never run out.
-- Locks worker rows for update, so that it never passes a claim under way; skips those that are busy, and
-- asks again whether the lease has run out once it has the lock. Answers their ids.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), silent as materialized (
  select id from {schema}.worker
   where lost_at is null and (expires_at < (select now from clock)
                              or expires_at > (select now from clock) + interval '36525 days')
   order by id
     for update skip locked
)
update {schema}.worker w
   set lost_at = clock.now
  from silent, clock
 where w.id = silent.id
returning w.id
