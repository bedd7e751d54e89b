-- How long a run took and waited, in seconds, from its ready_at and started_at; it waited NULL if it is not known when it was due.
-- tstzrange_subdiff is a plain subtraction; an interval that is taken apart costs several times as much.
-- Moments that were damaged by hand count as no time, or as a hundred years.
least(greatest(tstzrange_subdiff(clock.now, started_at), 0), 3155760000) as took,
case when ready_at is not null then least(greatest(tstzrange_subdiff(started_at, ready_at), 0), 3155760000) end as waited
