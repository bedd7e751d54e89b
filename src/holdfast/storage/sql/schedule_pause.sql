-- Stop one schedule from firing: until it is resumed, until a time, or for a length. Its plans are still decided, as skipped.
-- Fires that were planned before are void. Answers the schedule; no row: there is none of that name.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
update {schema}.schedule
   set paused_at = case when paused_until is null or paused_until > clock.now then coalesce(paused_at, clock.now)
                        else clock.now end,
       paused_until = coalesce(%(until)s::timestamptz, clock.now + %(length)s::interval),
       pause_note = %(note)s::text, version = version + 1
  from clock
 where name = %(name)s::text
returning name as schedule
