-- Up to %(limit)s open groups behind %(after)s for which the leader may have something to do: all of whose members have been counted or, with
-- %(is_sweep)s, any other; not those of which the first member that is awaited has not ended. And groups whose members are to be
-- cancelled, and those with guests, whose ends nobody counts. Locks nothing; leans on job_group_open.
-- No row: nothing is to be done.
select g.id, g.members, g.guests, g.awaited_place, g.closed_at is not null as is_closed,
       g.cancelled_at is not null and g.cancelled_place < g.members as is_cancelling, coalesce(a.is_over, false) as is_over
  from {schema}.job_group g
 cross join lateral (
   -- Looked for only where it matters.
   select case when g.closed_at is null
                and (%(is_sweep)s::boolean or g.guests > 0 or g.succeeded + g.failed + g.cancelled + g.expired >= g.members)
               then not {part first_awaited} end as is_over
   offset 0) a
 where g.ended_at is null and g.id > %(after)s::bigint
   and (a.is_over
        or (g.closed_at is null and g.guests > 0)
        or (g.closed_at is null and g.cancelled_at is not null and g.cancelled_place < g.members)
        or (g.closed_at is not null and %(is_sweep)s::boolean))
 order by g.id
 limit %(limit)s::int
