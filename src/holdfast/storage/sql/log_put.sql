-- Keep log lines of runs, one element of each array for some lines of one run. Not fenced, and it locks nothing but what it writes: lines
-- of a run that has lost its lease are kept too. Those of a job that is gone are not. Leans on the primary keys of job and run_log.
-- Sent twice, it has the effect of once. Answers how many elements were written.
with written as (
  insert into {schema}.run_log (job, run, written_at, first, last, lines)
  select a.job, a.run, coalesce(%(now)s::timestamptz, statement_timestamp()), a.first, a.last, a.lines::json
    from unnest(%(jobs)s::bigint[], %(runs)s::bigint[], %(firsts)s::int[], %(lasts)s::int[], %(lines)s::text[])
      as a (job, run, first, last, lines)
   cross join lateral (select from {schema}.job where id = a.job offset 0) j
  on conflict (job, run, last) do nothing
  returning 1
)
select count(*)::int from written
