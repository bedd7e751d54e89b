-- Where the jobs in `asked` (job) wait for their turn: their rows in ready (segment, place) and in scheduled (place), locked
-- in ascending order of jobs; rows that another transaction has locked are left out.
-- In ready by the whole key, for each priority: before Postgres 17 an array of priorities may become a filter over the
-- whole queue.
in_ready as materialized (
  select r.segment, r.place
    from asked a
   cross join lateral (select queue from {schema}.job where id = a.job offset 0) j
   cross join unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as p (priority)
   cross join lateral (
     select segment, ctid as place from {schema}.ready
      where queue = j.queue and priority = p.priority and job = a.job
        for update skip locked) r
), in_scheduled as materialized (
  select s.place
    from asked a
   cross join lateral (
     select ctid as place from {schema}.scheduled where job = a.job for update skip locked) s
)
