-- Count the jobs behind %(mark)s up to %(top)s as enqueued, by the minute of their creation: up to %(limit)s of them. Those that are
-- kept for no time are left out: the statement that ends them counts them.
-- Locks the mark, and counts nothing if it has moved: two leaders count each job once. Leans on job_pkey.
-- Answers how many jobs were read, or no row if the mark has moved.
with held as materialized (
  select job from {schema}.enqueue_mark where job = %(mark)s::bigint for update
), new as materialized (
  select id, created_at, queue, kind, keep
    from {schema}.job
   where id > %(mark)s::bigint and id <= %(top)s::bigint and exists (select from held)
   order by id
   limit %(limit)s::int
), begun as materialized (
  select date_bin(interval '1 minute', {part clamped_time time=created_at}, timestamptz '2000-01-01 00:00:00Z') as minute, queue, kind,
         count(*) as enqueued, 0 as started
    from new
   where keep is distinct from interval '0'
   group by 1, 2, 3
), {part beginnings}, moved as (
  update {schema}.enqueue_mark m
     set job = case when (select count(*) from new) < %(limit)s::int then %(top)s::bigint else (select max(id) from new) end
    from held h
   where m.job = h.job
)
select (select count(*) from new)::int from held
