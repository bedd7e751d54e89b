-- Less work once more, for enqueue, claim and success. Rewrites job, which nobody can read meanwhile: some seconds for a
-- million jobs.
-- min_code: 1

-- Whether a job had no key to give back, no parent to wake and no time of its own to be kept for when it was claimed: its
-- success need not look it up. NULL: claimed by older code.
alter table {schema}.lease add column is_plain boolean;

-- Arguments as they were written: an eighth of what a bulk enqueue cost the server was to take JSON apart and to put it
-- together again, for a column that nothing here looks into. The view shows jsonb, as before.
-- A view holds on to the types of its columns. Replaced by one that leans on nothing, and back, it keeps its owner and
-- whoever may read it; dropped, it would not.
create or replace view {schema}.jobs as
select null::bigint as id, null::text as kind, null::text as queue, null::smallint as priority, null::text as state,
       null::smallint as attempt, null::smallint as max_attempts, null::jsonb as args, null::text[] as tags,
       null::text as unique_key, null::timestamptz as created_at, null::timestamptz as run_at,
       null::timestamptz as started_at, null::bigint as worker, null::timestamptz as deadline_at,
       null::timestamptz as finished_at, null::jsonb as error, null::jsonb as result, null::text as flag,
       null::timestamptz as cancel_requested_at, null::boolean as is_parked, null::jsonb as origin,
       null::jsonb as progress, null::bigint as parent;

alter table {schema}.job alter column args type json;

create or replace view {schema}.jobs as
select j.id, j.kind, j.queue, coalesce(r.priority, j.priority) as priority,
       case when l.job is not null then 'running'
            when r.job is not null then 'ready'
            when s.job is not null then 'scheduled'
            when w.job is not null then 'waiting'
            else f.outcome::text
       end as state,
       coalesce(l.attempt, r.attempt, s.attempt, case when w.job is not null then 0::smallint end, f.attempt) as attempt,
       j.max_attempts,
       j.args::jsonb as args, j.tags, j.unique_key, j.created_at, s.run_at, l.started_at, l.worker, j.deadline_at,
       f.finished_at, f.error,
       case when f.outcome = 'succeeded' and f.flag is null then coalesce(f.result, '{}') else f.result end as result,
       f.flag, l.cancel_requested_at, r.segment = 9 as is_parked, j.origin,
       v.progress, j.parent
  from {schema}.job j
  left join {schema}.lease l on l.job = j.id
  left join {schema}.ready r
    on r.queue = j.queue and r.priority in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) and r.job = j.id
  left join {schema}.scheduled s on s.job = j.id
  left join {schema}.waiting w on w.job = j.id
  left join {schema}.ledger f on f.job = j.id and f.is_final
  left join {schema}.saved v on v.job = j.id;
