-- Debounce and throttle: what a unique key does beyond being held while its job is active.
-- min_code: 1

-- Since when a debounced job has been put off by enqueues of its key, and the moment until which it can be; NULL: not debounced, and
-- no such moment.
alter table {schema}.job add column debounced_since timestamptz, add column debounced_until timestamptz;

-- A key with a time is held until then, also when its job has ended; the leader deletes it afterwards.
alter table {schema}.unique_key add column until timestamptz;
-- A job that a newer one with its unique key has taken the place of: it is not run again. The leader deletes the row once the job has
-- ended. A table, as whoever enqueues must not lock the row of a job that runs.
create table {schema}.superseded (
  job bigint primary key,
  by  bigint not null
);
create index unique_key_until on {schema}.unique_key (until) where until is not null;

-- A function with more arguments is another one, and a call that names none of them would be ambiguous: the old one goes.
drop function {schema}.enqueue(
  text, jsonb, text, integer, interval, timestamptz, text, integer, timestamptz, interval, text[], interval, timestamptz, jsonb
);
create function {schema}.enqueue(
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
  keep         interval    default null,
  now          timestamptz default null,
  headers      jsonb       default null,
  debounce     interval    default null,
  max_wait     interval    default null,
  unique_for   interval    default null
) returns bigint language plpgsql volatile set search_path = pg_catalog, pg_temp as $function$
#variable_conflict use_variable
declare
  moment constant timestamptz := coalesce(now, statement_timestamp());
  due    timestamptz;
  taken  bigint;
  holder bigint;
  passed record;
  since  timestamptz;
  came   timestamptz;
  is_replaced boolean := false;
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
  elsif greatest(run_at, deadline_at, now) >= timestamptz '9001-01-01 00:00:00Z' then
    raise invalid_parameter_value using message = 'run_at, deadline_at and now must be before the year 9001';
  elsif not isfinite(now) then
    raise invalid_parameter_value using message = 'now must be a finite time';
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
  if headers is not null and jsonb_typeof(headers) <> 'object' then
    raise invalid_parameter_value using message = 'headers must be a JSON object, such as {"traceparent": "00-…"}';
  elsif octet_length(headers::text) > 8192 then
    raise invalid_parameter_value using message = 'headers are larger than 8 KiB: pass a reference instead';
  elsif exists (select from jsonb_each(headers) as h (name, value) where jsonb_typeof(value) <> 'string') then
    raise invalid_parameter_value using message = 'headers must be texts';
  end if;
  if least(debounce, max_wait, unique_for) <= interval '0' then
    raise invalid_parameter_value using message = 'debounce, max_wait and unique_for must be longer than nothing';
  elsif greatest(debounce, max_wait, unique_for) > interval '36525 days' then
    raise invalid_parameter_value using message = 'debounce, max_wait and unique_for must not be longer than a hundred years';
  elsif unique_key is null and (debounce is not null or unique_for is not null) then
    raise invalid_parameter_value using message = 'debounce and unique_for need a unique_key: it says which jobs are the same';
  elsif max_wait is not null and debounce is null then
    raise invalid_parameter_value using message = 'max_wait needs debounce: it bounds how long that can put a job off';
  elsif max_wait < debounce then
    raise invalid_parameter_value using message = 'max_wait must not be shorter than debounce';
  elsif debounce is not null and unique_for is not null then
    raise invalid_parameter_value using message = 'give debounce (the last of a burst runs) or unique_for (the first runs), not both';
  elsif debounce is not null and (delay is not null or run_at is not null) then
    raise invalid_parameter_value using message = 'debounce says when the job runs: leave out delay and run_at';
  end if;
  due := coalesce(run_at, moment + coalesce(debounce, delay));
  if deadline_at <= greatest(moment, due) then
    raise invalid_parameter_value using message = 'deadline_at must come after the time at which the job may run';
  end if;
  select l.limits, l.keys into passed from {schema}.limits_of(kind, args) l;
  taken := nextval('{schema}.job_id_seq');

  -- A settle may leave the key of an ended job behind. It is taken over only if our snapshot shows that very row:
  -- enqueue_unique.sql has the reason.
  if unique_key is not null then
    insert into {schema}.unique_key as held (queue, key, job, until) values (queue, unique_key, taken, moment + unique_for)
    on conflict on constraint unique_key_pkey do update
       set (job, until) = (
             select case when k.is_free then excluded.job else held.job end, case when k.is_free then excluded.until else held.until end
               from (select exists (select from {schema}.unique_key k where k.ctid = held.ctid)
                            and (not exists (select from {schema}.job j where j.id = held.job)
                                 or exists (select from {schema}.ledger l where l.job = held.job and l.is_final))
                            and (held.until is null or held.until <= moment) as is_free
                     offset 0) k)
    returning held.job into holder;
    if holder <> taken and debounce is null then
      return holder;
    end if;
  end if;

  -- Debounced: the job that waits gets these contents and a later time, as in replace.sql. From one that runs, is moving or is a flow
  -- that has begun, or has a permit of its limits, a new job takes the key over, as in enqueue_unique.sql. The key is locked by now, so that no other enqueue
  -- of it comes between these statements.
  if debounce is not null then
    since := moment;
    if holder <> taken and not exists (select from {schema}.checkpoint c where c.job = holder) then
      if not exists (select from {schema}.ledger l where l.job = holder)
         and not exists (select from {schema}.worker w
                          cross join lateral (select from {schema}.lease l where l.worker = w.id and l.job = holder offset 0) l)
      then
        since := coalesce((select j.debounced_since from {schema}.job j where j.id = holder), moment);
      end if;
      due := least(moment + debounce, since + max_wait);
      with locked as materialized (
        select s.ctid as place from {schema}.scheduled s where s.job = holder for update skip locked
      )
      delete from {schema}.scheduled s using locked l where s.ctid = l.place;
      if not found then
        with locked as materialized (
          select r.segment, r.place
            from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as p (level)
           cross join lateral (
             select o.segment, o.ctid as place from {schema}.ready o
              where o.queue = queue and o.priority = p.level and o.job = holder
                and (o.segment = 8 or not exists (select from {schema}.job j where j.id = holder and j.limits is not null))
                for update skip locked) r
        )
        delete from {schema}.ready r using locked l where r.segment = l.segment and r.ctid = l.place returning r.ready_at into came;
      end if;
      if found then
        update {schema}.job j
           set args = enqueue.args, deadline_at = enqueue.deadline_at, kind = enqueue.kind, priority = enqueue.priority,
               max_attempts = enqueue.max_attempts, backoff = null, timeout = enqueue.timeout, keep = enqueue.keep,
               on_lost = null, tags = enqueue.tags,
               origin = case when headers <> '{}' then jsonb_build_object('headers', headers) end,
               limits = passed.limits, limit_keys = passed.keys, limit_costs = null,
               debounced_since = since, debounced_until = since + max_wait
         where j.id = holder;
        delete from {schema}.saved s where s.job = holder;
        is_replaced := true;
        taken := holder;
      end if;
    end if;
    if holder <> taken then
      taken := nextval('{schema}.job_id_seq');
      update {schema}.unique_key k set job = taken, until = null where k.queue = enqueue.queue and k.key = unique_key;
      insert into {schema}.superseded (job, by)
      select holder, taken where not exists (select from {schema}.ledger l where l.job = holder and l.is_final)
      on conflict do nothing;
    end if;
  end if;

  if not is_replaced then
    insert into {schema}.job (id, created_at, deadline_at, priority, max_attempts, kind, queue, args, timeout, keep,
                              unique_key, tags, origin, limits, limit_keys, debounced_since, debounced_until)
    values (taken, moment, deadline_at, priority, max_attempts, kind, queue, args, timeout, keep, unique_key, tags,
            case when headers <> '{}' then jsonb_build_object('headers', headers) end, passed.limits, passed.keys,
            since, since + max_wait);
  end if;
  if due > moment then
    insert into {schema}.scheduled (job, run_at, deadline_at, attempt) values (taken, due, deadline_at, 0);
    perform pg_notify('{schema_name}.due', extract(epoch from due)::text);
  elsif passed.limits is not null then
    insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at, limit_name, limit_key, next_limit, next_key)
    values (queue, priority, taken, 8, kind, 0, coalesce(came, moment), deadline_at, passed.limits[1], passed.keys[1], passed.limits[2], passed.keys[2]);
    insert into {schema}.knock (limit_name, key, given, priority, job) values (passed.limits[1], passed.keys[1], 0, priority, taken);
    perform pg_notify('{schema_name}.gate', '');
  else
    insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at)
    select queue, priority, taken, ring.current, kind, 0, coalesce(came, moment), deadline_at from {schema}.ring order by version desc limit 1;
    perform pg_notify('{schema_name}.ready', queue);
  end if;
  return taken;
end
$function$;
