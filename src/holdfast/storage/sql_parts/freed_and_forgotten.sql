-- What ends with the jobs in {jobs} (job, queue, unique_key, keep): their unique keys, unless they are held for longer, and of those that are kept for no
-- time the job itself and what it saved; such a job is counted as enqueued, since the leader may not see it any more.
-- Never waits: a key that another transaction has locked is left behind; enqueue takes it over, and prune sweeps it.
freed as (
  delete from {schema}.unique_key
   where job = any(array(
           select f.job
             from {jobs} f
            cross join lateral (
              select from {schema}.unique_key
               where queue = f.queue and key = f.unique_key and job = f.job
                 and (until is null or until <= (select now from clock))
                 for update skip locked) k))
), forgotten as (
  delete from {schema}.job where id = any(array(select job from {jobs} where keep = interval '0'))
  returning created_at, queue, kind
), arrived as (
  insert into {schema}.enqueue_tally (minute, queue, kind, enqueued)
  select date_trunc('minute', created_at), queue, kind, count(*) from forgotten group by 1, 2, 3
), unsaved as (
  delete from {schema}.saved where job = any(array(select job from {jobs} where keep = interval '0'))
)
