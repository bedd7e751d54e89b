-- The row of job `a.job` in ready, as `r`: a join of its own, locked unless another transaction has locked it.
-- By the whole key, for each priority: before Postgres 17 an array of priorities may become a filter over the whole queue.
cross join unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as p (priority)
   cross join lateral (
     select segment, ctid as place from {schema}.ready
      where queue = {queue} and priority = p.priority and job = a.job
        for update skip locked) r
