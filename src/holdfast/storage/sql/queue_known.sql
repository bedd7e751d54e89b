-- Whether anything knows a queue: a setting, a worker that lives or lived lately, a schedule, a job that waits or runs, one of
-- the latest %(searched)s jobs, or of the next as many delayed ones and waiting flows; and all names found on the way, to show
-- what may have been meant. Always one row. Locks nothing. For operators' typing errors: it reads some ten thousand rows.
with names (queue) as materialized (
  select name from {schema}.queue
   union
  select name from {schema}.worker w, unnest(w.queues) as name
   union
  select queue from {schema}.schedule
   union
  select queue from {schema}.lease where queue is not null
   union
  select queue from (select queue from {schema}.job order by id desc limit %(searched)s::int) latest
   union
  select j.queue
    from (select job from {schema}.scheduled order by run_at limit %(searched)s::int) s
   cross join lateral (select queue from {schema}.job where id = s.job offset 0) j
   union
  select j.queue
    from (select job from {schema}.waiting limit %(searched)s::int) w
   cross join lateral (select queue from {schema}.job where id = w.job offset 0) j
   union
  select %(queue)s::text where exists (select from {schema}.ready where queue = %(queue)s::text)
)
select %(queue)s::text in (select queue from names) as is_known,
       array(select queue from names order by queue limit 1000) as names
