-- What ends with the jobs in {jobs} (job, queue, unique_key, keep): their unique keys, and of those that are kept for no
-- time the job itself and what it saved.
-- Never waits: a key that another transaction has locked is left behind; enqueue takes it over, and prune sweeps it.
freed as (
  delete from {schema}.unique_key
   where job = any(array(
           select f.job
             from {jobs} f
            cross join lateral (
              select from {schema}.unique_key
               where queue = f.queue and key = f.unique_key and job = f.job
                 for update skip locked) k))
), forgotten as (
  delete from {schema}.job where id = any(array(select job from {jobs} where keep = interval '0'))
), unsaved as (
  delete from {schema}.saved where job = any(array(select job from {jobs} where keep = interval '0'))
)
