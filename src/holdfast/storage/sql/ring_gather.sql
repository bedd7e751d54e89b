-- Move what is left in a segment that is not current to the current one, so that it can be truncated.
-- With more than %(limit)s rows it is a backlog, not a rest: nothing is moved. Rows are deleted and inserted again,
-- never updated; locked ones are skipped. Their queues are woken: a claim that came meanwhile saw them locked.
-- Answers how many were moved.
with few as materialized (
  select count(*) <= %(limit)s::int as is_rest
    from (select from {schema}.ready_{segment} where ctid >= '(0,0)' limit %(limit)s::int + 1) rest
), picked as materialized (
  select ctid as place
    from {schema}.ready_{segment}
   where ctid >= '(0,0)' and (select is_rest from few)
     and (select current <> {segment} from {schema}.ring order by version desc limit 1)
   limit %(limit)s::int
     for update skip locked
), taken as (
  delete from {schema}.ready_{segment} r using picked p where r.ctid = p.place
  returning r.queue, r.priority, r.job, r.kind, r.attempt, r.ready_at, r.deadline_at
), {part moved_to_current}
