-- End all runs of a batch with success, as the last statement of a transaction in which its handler has written: what
-- complete does, for all of them or none. It answers `settled`, or for a commit that is sent along with this statement
-- fails, unless every run still holds its lease. Names the first run that does not. Fence and order of locks are settle's.
-- The parts about limits are for batches with a limited job: its permits are handed on or given back, and whom that concerns is
-- notified.
{part completed}
{part handed_on_told}
select case when lost.run is null then 'settled' else {refused} end as answer, lost.run as lost
  from (select min(run) as run from asked, unnest(asked.runs) as run where run not in (select run from ended)) lost
       {part and_everyone_told}
