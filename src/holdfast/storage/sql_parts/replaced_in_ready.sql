-- Put rows {of} that were deleted from ready (all of its columns, and limits and limit_keys of the job) into it again. One of the ring
-- comes to its current segment, with its permits; one at the gate stays where it was, with a knock; a parked one of a job with
-- limits, which holds none, comes to segment {parked}, and any other parked one to the ring (9: stays parked).
placed as (
  insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at, limit_name, limit_key, next_limit, next_key)
  select o.queue, o.priority, o.job,
         case when o.segment = 8 then 8
              when o.segment = 9 and ({parked} = 9 or o.limits[1] is not null) then {parked}
              else (select current from {schema}.ring order by version desc limit 1) end,
         o.kind, o.attempt, o.ready_at, o.deadline_at,
         case when o.segment = 9 and {parked} = 8 then o.limits[1] else o.limit_name end,
         case when o.segment = 9 and {parked} = 8 then case when o.limits[1] is not null then coalesce(o.limit_keys[1], '') end else o.limit_key end,
         case when o.segment = 9 and {parked} = 8 then o.limits[2] else o.next_limit end,
         case when o.segment = 9 and {parked} = 8 then case when o.limits[2] is not null then coalesce(o.limit_keys[2], '') end else o.next_key end
    from {of} o
  on conflict do nothing
  returning queue, priority, job, segment, limit_name, limit_key
), {part came of=placed}
