-- What damage by hand, and callers from SQL, could do until now.
-- min_code: 1

-- A job that is in no table, since somebody deleted its row, has a state that says so.
create or replace view {schema}.jobs as
select j.id, j.kind, j.queue, coalesce(r.priority, j.priority) as priority,
       case when l.job is not null then 'running'
            when r.job is not null then 'ready'
            when s.job is not null then 'scheduled'
            when w.job is not null then 'waiting'
            else coalesce(f.outcome::text, 'lost')
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

-- The same characters are refused as in Python (domain/job.py), and so are more tags than that takes.
create or replace function {schema}.enqueue(
  kind         text,
  args         jsonb       default '{}',
  queue        text        default 'default',
  priority     integer     default 5,
  delay        interval    default null,
  run_at       timestamptz default null,
  unique_key   text        default null,
  max_attempts integer     default 20,
  deadline_at  timestamptz default null,
  timeout      interval    default null,
  tags         text[]      default null,
  keep         interval    default null
) returns bigint language plpgsql volatile set search_path = pg_catalog, pg_temp as $function$
#variable_conflict use_variable
declare
  moment constant timestamptz := statement_timestamp();
  due    timestamptz;
  taken  bigint;
  holder bigint;
begin
  if coalesce(char_length(kind), 0) not between 1 and 200 then
    raise invalid_parameter_value using message = 'kind must have 1 to 200 characters';
  elsif coalesce(char_length(queue), 0) not between 1 and 200 then
    raise invalid_parameter_value using message = 'queue must have 1 to 200 characters';
  elsif args is null or jsonb_typeof(args) <> 'object' then
    raise invalid_parameter_value using message = 'args must be a JSON object, such as {"user_id": 42}';
  elsif octet_length(args::text) > 1048576 then
    raise invalid_parameter_value using message = 'args are larger than 1 MiB: store them elsewhere and pass a reference';
  elsif priority is null or priority not between 0 and 9 then
    raise invalid_parameter_value using message = 'priority must be 0 (most urgent) to 9';
  elsif max_attempts is null or max_attempts not between 1 and 32767 then
    raise invalid_parameter_value using message = 'max_attempts must be 1 to 32767, the first attempt included';
  elsif delay < interval '0' then
    raise invalid_parameter_value using message = 'delay must not be negative';
  elsif delay is not null and run_at is not null then
    raise invalid_parameter_value using message = 'give delay or run_at, not both';
  elsif timeout <= interval '0' then
    raise invalid_parameter_value using message = 'timeout must be longer than nothing';
  elsif keep < interval '0' then
    raise invalid_parameter_value using message = 'keep must not be negative';
  elsif greatest(delay, timeout, keep) > interval '36525 days' then
    raise invalid_parameter_value using message = 'delay, timeout and keep must not be longer than a hundred years';
  elsif greatest(run_at, deadline_at) >= timestamptz '9001-01-01 00:00:00Z' then
    raise invalid_parameter_value using message = 'run_at and deadline_at must be before the year 9001';
  elsif octet_length(unique_key) not between 1 and 1000 then
    raise invalid_parameter_value using message = 'unique_key must have 1 to 1000 bytes: use a hash of a longer one';
  elsif cardinality(tags) > 100 then
    raise invalid_parameter_value using message = 'a job has at most 100 tags';
  elsif exists (select from unnest(tags) as t (tag) where coalesce(char_length(tag), 0) not between 1 and 200) then
    raise invalid_parameter_value using message = 'a tag must have 1 to 200 characters';
  elsif exists (
    select from unnest(tags || array[kind, queue, unique_key]) as t (name)
     where name ~ '[\u0001-\u001f\u007f-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ue000-\uf8ff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]')
  then
    raise invalid_parameter_value using message = 'kind, queue, unique_key and tags must not hold control characters, or others that cannot be seen: use plain text';
  end if;
  due := coalesce(run_at, moment + delay);
  if deadline_at <= greatest(moment, due) then
    raise invalid_parameter_value using message = 'deadline_at must come after the time at which the job may run';
  end if;
  taken := nextval('{schema}.job_id_seq');

  -- A key that was left behind is taken over only if our snapshot shows that very row of it: see enqueue_unique.sql.
  if unique_key is not null then
    insert into {schema}.unique_key as held (queue, key, job) values (queue, unique_key, taken)
    on conflict on constraint unique_key_pkey do update
       set job = case when exists (select from {schema}.unique_key k where k.ctid = held.ctid)
                       and (not exists (select from {schema}.job j where j.id = held.job)
                            or exists (select from {schema}.ledger l where l.job = held.job and l.is_final))
                      then excluded.job else held.job end
    returning held.job into holder;
    if holder <> taken then
      return holder;
    end if;
  end if;

  insert into {schema}.job (id, created_at, deadline_at, priority, max_attempts, kind, queue, args, timeout, keep,
                            unique_key, tags)
  values (taken, moment, deadline_at, priority, max_attempts, kind, queue, args, timeout, keep, unique_key, tags);
  if due > moment then
    insert into {schema}.scheduled (job, run_at, deadline_at, attempt) values (taken, due, deadline_at, 0);
    perform pg_notify('{schema_name}.due', extract(epoch from due)::text);
  else
    insert into {schema}.ready (queue, priority, job, segment, kind, attempt, deadline_at)
    select queue, priority, taken, ring.current, kind, 0, deadline_at from {schema}.ring order by version desc limit 1;
    perform pg_notify('{schema_name}.ready', queue);
  end if;
  return taken;
end
$function$;

