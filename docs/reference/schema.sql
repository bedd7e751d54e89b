CREATE SCHEMA holdfast;

CREATE TYPE holdfast.outcome AS ENUM (
    'succeeded',
    'retried',
    'snoozed',
    'released',
    'failed',
    'cancelled',
    'expired'
);

CREATE FUNCTION holdfast.backlog(queue text, up_to integer DEFAULT 1000, with_running boolean DEFAULT false, now timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS integer
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    SET enable_sort TO 'off'
    AS $$
  select least(up_to, (waiting.jobs + running.jobs)::integer)
    from (select count(*) as jobs
            from (select from "holdfast".ready r
                   where r.segment in (0, 1, 2, 3)
                     and r.queue = backlog.queue
                     and (r.deadline_at is null or r.deadline_at > coalesce(now, statement_timestamp()))
                     and not exists (
                           select from "holdfast".queue q
                            where q.name = backlog.queue and q.paused_at is not null
                              and (q.paused_until is null or q.paused_until > coalesce(now, statement_timestamp())))
                   order by r.priority, r.job
                   limit greatest(up_to, 0)) counted) waiting,
         (select count(*) as jobs
            from (select from "holdfast".lease l
                   where with_running and l.queue = backlog.queue
                   limit greatest(up_to, 0)) counted) running
$$;

CREATE FUNCTION holdfast.enqueue(kind text, args jsonb DEFAULT '{}'::jsonb, queue text DEFAULT 'default'::text, priority integer DEFAULT 5, delay interval DEFAULT NULL::interval, run_at timestamp with time zone DEFAULT NULL::timestamp with time zone, unique_key text DEFAULT NULL::text, max_attempts integer DEFAULT 20, deadline_at timestamp with time zone DEFAULT NULL::timestamp with time zone, timeout interval DEFAULT NULL::interval, tags text[] DEFAULT NULL::text[], keep interval DEFAULT NULL::interval, now timestamp with time zone DEFAULT NULL::timestamp with time zone, headers jsonb DEFAULT NULL::jsonb, debounce interval DEFAULT NULL::interval, max_wait interval DEFAULT NULL::interval, unique_for interval DEFAULT NULL::interval) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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
  select l.limits, l.keys into passed from "holdfast".limits_of(kind, args) l;
  taken := nextval('"holdfast".job_id_seq');

  -- A settle may leave the key of an ended job behind. It is taken over only if our snapshot shows that very row:
  -- enqueue_unique.sql has the reason.
  if unique_key is not null then
    insert into "holdfast".unique_key as held (queue, key, job, until) values (queue, unique_key, taken, moment + unique_for)
    on conflict on constraint unique_key_pkey do update
       set (job, until) = (
             select case when k.is_free then excluded.job else held.job end, case when k.is_free then excluded.until else held.until end
               from (select exists (select from "holdfast".unique_key k where k.ctid = held.ctid)
                            and (not exists (select from "holdfast".job j where j.id = held.job)
                                 or exists (select from "holdfast".ledger l where l.job = held.job and l.is_final))
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
    if holder <> taken and not exists (select from "holdfast".checkpoint c where c.job = holder) then
      if not exists (select from "holdfast".ledger l where l.job = holder)
         and not exists (select from "holdfast".worker w
                          cross join lateral (select from "holdfast".lease l where l.worker = w.id and l.job = holder offset 0) l)
      then
        since := coalesce((select j.debounced_since from "holdfast".job j where j.id = holder), moment);
      end if;
      due := least(moment + debounce, since + max_wait);
      with locked as materialized (
        select s.ctid as place from "holdfast".scheduled s where s.job = holder for update skip locked
      )
      delete from "holdfast".scheduled s using locked l where s.ctid = l.place;
      if not found then
        with locked as materialized (
          select r.segment, r.place
            from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as p (level)
           cross join lateral (
             select o.segment, o.ctid as place from "holdfast".ready o
              where o.queue = queue and o.priority = p.level and o.job = holder
                and (o.segment = 8 or not exists (select from "holdfast".job j where j.id = holder and j.limits is not null))
                for update skip locked) r
        )
        delete from "holdfast".ready r using locked l where r.segment = l.segment and r.ctid = l.place returning r.ready_at into came;
      end if;
      if found then
        update "holdfast".job j
           set args = enqueue.args, deadline_at = enqueue.deadline_at, kind = enqueue.kind, priority = enqueue.priority,
               max_attempts = enqueue.max_attempts, backoff = null, timeout = enqueue.timeout, keep = enqueue.keep,
               on_lost = null, tags = enqueue.tags,
               origin = case when headers <> '{}' then jsonb_build_object('headers', headers) end,
               limits = passed.limits, limit_keys = passed.keys, limit_costs = null,
               debounced_since = since, debounced_until = since + max_wait
         where j.id = holder;
        delete from "holdfast".saved s where s.job = holder;
        is_replaced := true;
        taken := holder;
      end if;
    end if;
    if holder <> taken then
      taken := nextval('"holdfast".job_id_seq');
      update "holdfast".unique_key k set job = taken, until = null where k.queue = enqueue.queue and k.key = unique_key;
      insert into "holdfast".superseded (job, by)
      select holder, taken where not exists (select from "holdfast".ledger l where l.job = holder and l.is_final)
      on conflict do nothing;
    end if;
  end if;

  if not is_replaced then
    insert into "holdfast".job (id, created_at, deadline_at, priority, max_attempts, kind, queue, args, timeout, keep,
                              unique_key, tags, origin, limits, limit_keys, debounced_since, debounced_until)
    values (taken, moment, deadline_at, priority, max_attempts, kind, queue, args, timeout, keep, unique_key, tags,
            case when headers <> '{}' then jsonb_build_object('headers', headers) end, passed.limits, passed.keys,
            since, since + max_wait);
  end if;
  if due > moment then
    insert into "holdfast".scheduled (job, run_at, deadline_at, attempt) values (taken, due, deadline_at, 0);
    perform pg_notify('holdfast.due', extract(epoch from due)::text);
  elsif passed.limits is not null then
    insert into "holdfast".ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at, limit_name, limit_key, next_limit, next_key)
    values (queue, priority, taken, 8, kind, 0, coalesce(came, moment), deadline_at, passed.limits[1], passed.keys[1], passed.limits[2], passed.keys[2]);
    insert into "holdfast".knock (limit_name, key, given, priority, job) values (passed.limits[1], passed.keys[1], 0, priority, taken);
    perform pg_notify('holdfast.gate', '');
  else
    insert into "holdfast".ready (queue, priority, job, segment, kind, attempt, ready_at, deadline_at)
    select queue, priority, taken, ring.current, kind, 0, coalesce(came, moment), deadline_at from "holdfast".ring order by version desc limit 1;
    perform pg_notify('holdfast.ready', queue);
  end if;
  return taken;
end
$$;

CREATE FUNCTION holdfast.limits_of(kind text, args jsonb, OUT limits text[], OUT keys text[]) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
declare
  rules jsonb;
  rule  jsonb;
  inner_args jsonb;
  given jsonb;
  part  text;
  parts jsonb;
  key   text;
begin
  select k.limits into rules from "holdfast".kind k where k.name = kind;
  if rules is null then
    return;
  end if;
  for rule in select r.value from jsonb_array_elements(rules) as r order by r.value ->> 'limit' collate "C" loop
    inner_args := case when rule ? 'within' then args -> (rule ->> 'within') else args end;
    given := coalesce(rule -> 'defaults', '{}') || case when jsonb_typeof(inner_args) = 'object' then inner_args else '{}' end;
    parts := '[]';
    for part in select jsonb_array_elements_text(rule -> 'by') loop
      if coalesce(given -> part, 'null') in ('null', '""') then
        raise invalid_parameter_value using message = format(
          '%s counts against limit "%s" by its %s, which is missing or empty: give it in args', kind, rule ->> 'limit', part);
      end if;
      parts := parts || jsonb_build_array(given -> part);
    end loop;
    key := case jsonb_array_length(parts) when 0 then '' when 1 then parts ->> 0 else parts::text end;
    if rule @> '{"is_secret": true}' or octet_length(key) > 1000
       or key ~ '[\u0001-\u001f\u007f-\u00a0\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ue000-\uf8ff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]'
    then
      key := 'sha256:' || encode(sha256(convert_to(key, 'UTF8')), 'hex');
    end if;
    limits := limits || (rule ->> 'limit');
    keys := keys || key;
  end loop;
end
$$;

CREATE TABLE holdfast.audit (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    action text NOT NULL,
    by text NOT NULL,
    target text NOT NULL,
    reason text,
    counts jsonb NOT NULL
);

ALTER TABLE holdfast.audit ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME holdfast.audit_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE holdfast.beginning (
    minute timestamp with time zone NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    enqueued bigint NOT NULL,
    started bigint NOT NULL
)
WITH (fillfactor='70');

CREATE TABLE holdfast.beginning_hour (
    hour timestamp with time zone NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    enqueued bigint NOT NULL,
    started bigint NOT NULL
)
WITH (fillfactor='70');

CREATE TABLE holdfast.checkpoint (
    job bigint NOT NULL,
    child bigint,
    code bigint,
    written_at timestamp with time zone NOT NULL,
    until timestamp with time zone,
    place integer,
    failures smallint DEFAULT 0 NOT NULL,
    is_done boolean NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    bunch text,
    branch text,
    value jsonb,
    error jsonb,
    CONSTRAINT checkpoint_kind_check CHECK (((char_length(kind) >= 1) AND (char_length(kind) <= 200))),
    CONSTRAINT checkpoint_name_check CHECK (((octet_length(name) >= 1) AND (octet_length(name) <= 1000)))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE holdfast.counter (
    minute timestamp with time zone NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    outcome holdfast.outcome NOT NULL,
    runs bigint NOT NULL,
    run_time interval NOT NULL,
    wait_time interval DEFAULT '00:00:00'::interval NOT NULL,
    wait_buckets smallint[] DEFAULT '{}'::smallint[] NOT NULL,
    wait_counts integer[] DEFAULT '{}'::integer[] NOT NULL,
    run_buckets smallint[] DEFAULT '{}'::smallint[] NOT NULL,
    run_counts integer[] DEFAULT '{}'::integer[] NOT NULL
);

CREATE TABLE holdfast.counter_hour (
    hour timestamp with time zone NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    outcome holdfast.outcome NOT NULL,
    runs bigint NOT NULL,
    run_time interval NOT NULL,
    wait_time interval DEFAULT '00:00:00'::interval NOT NULL,
    wait_buckets smallint[] DEFAULT '{}'::smallint[] NOT NULL,
    wait_counts integer[] DEFAULT '{}'::integer[] NOT NULL,
    run_buckets smallint[] DEFAULT '{}'::smallint[] NOT NULL,
    run_counts integer[] DEFAULT '{}'::integer[] NOT NULL
)
WITH (fillfactor='70');

CREATE TABLE holdfast.dead (
    job bigint NOT NULL,
    run bigint NOT NULL,
    died_at timestamp with time zone NOT NULL,
    fingerprint text
);

CREATE TABLE holdfast.enqueue_mark (
    is_only boolean DEFAULT true NOT NULL,
    job bigint NOT NULL,
    CONSTRAINT enqueue_mark_is_only_check CHECK (is_only)
)
WITH (fillfactor='50');

CREATE TABLE holdfast.enqueue_tally (
    id bigint NOT NULL,
    minute timestamp with time zone NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    enqueued bigint NOT NULL
);

ALTER TABLE holdfast.enqueue_tally ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME holdfast.enqueue_tally_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE holdfast.event (
    id bigint NOT NULL,
    emitted_at timestamp with time zone NOT NULL,
    keep_until timestamp with time zone NOT NULL,
    key text NOT NULL,
    payload jsonb,
    CONSTRAINT event_key_check CHECK (((octet_length(key) >= 1) AND (octet_length(key) <= 1000)))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE holdfast.event ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME holdfast.event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE holdfast.failure_count (
    fingerprint text NOT NULL,
    began_at timestamp with time zone NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    runs bigint NOT NULL
);

CREATE TABLE holdfast.failure_group (
    fingerprint text NOT NULL,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    job bigint NOT NULL,
    run bigint NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    code text,
    type text,
    message text,
    frame text
)
WITH (fillfactor='80');

CREATE TABLE holdfast.failure_tally (
    id bigint NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    job bigint NOT NULL,
    run bigint NOT NULL,
    runs bigint NOT NULL,
    fingerprint text NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    code text,
    type text,
    message text,
    frame text
);

ALTER TABLE holdfast.failure_tally ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME holdfast.failure_tally_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE holdfast.group_member (
    job_group bigint NOT NULL,
    place integer NOT NULL,
    job bigint NOT NULL
);

CREATE TABLE holdfast.job (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    deadline_at timestamp with time zone,
    parent bigint,
    priority smallint NOT NULL,
    max_attempts smallint NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    args json NOT NULL,
    backoff jsonb,
    timeout interval,
    keep interval,
    on_lost text,
    unique_key text,
    tags text[],
    origin jsonb,
    limits text[],
    limit_keys text[],
    limit_costs integer[],
    debounced_since timestamp with time zone,
    debounced_until timestamp with time zone,
    CONSTRAINT job_keep_check CHECK (((keep >= '00:00:00'::interval) AND (keep <= '36525 days'::interval))),
    CONSTRAINT job_kind_check CHECK ((octet_length(kind) <= 800)),
    CONSTRAINT job_queue_check CHECK ((octet_length(queue) <= 800)),
    CONSTRAINT job_timeout_check CHECK (((timeout > '00:00:00'::interval) AND (timeout <= '36525 days'::interval)))
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_analyze_scale_factor='0.1');

CREATE TABLE holdfast.job_group (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    closed_at timestamp with time zone,
    ended_at timestamp with time zone,
    keep_until timestamp with time zone,
    cancelled_at timestamp with time zone,
    then_job bigint,
    members integer DEFAULT 0 NOT NULL,
    guests integer DEFAULT 0 NOT NULL,
    succeeded integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    cancelled integer DEFAULT 0 NOT NULL,
    expired integer DEFAULT 0 NOT NULL,
    gone integer DEFAULT 0 NOT NULL,
    awaited_place integer DEFAULT 0 NOT NULL,
    cancelled_place integer DEFAULT 0 NOT NULL,
    has_failed boolean,
    name text,
    cancel_reason text,
    tags text[],
    on_success jsonb,
    on_failure jsonb
)
WITH (fillfactor='50');

ALTER TABLE holdfast.job ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME holdfast.job_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE holdfast.lease (
    worker bigint NOT NULL,
    job bigint NOT NULL,
    run bigint NOT NULL,
    ready_at timestamp with time zone,
    started_at timestamp with time zone NOT NULL,
    timeout_at timestamp with time zone NOT NULL,
    cancel_requested_at timestamp with time zone,
    attempt smallint NOT NULL,
    is_plain boolean,
    queue text,
    kind text,
    cancel_reason text
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');

CREATE TABLE holdfast.ledger (
    job bigint NOT NULL,
    run bigint NOT NULL,
    ready_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone NOT NULL,
    keep_until timestamp with time zone,
    worker bigint,
    outcome holdfast.outcome NOT NULL,
    attempt smallint NOT NULL,
    is_final boolean NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    flag text,
    error jsonb,
    result jsonb
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE holdfast.ready (
    job bigint NOT NULL,
    ready_at timestamp with time zone NOT NULL,
    deadline_at timestamp with time zone,
    attempt smallint NOT NULL,
    priority smallint NOT NULL,
    segment smallint NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    limit_name text,
    limit_key text,
    next_limit text,
    next_key text
)
PARTITION BY LIST (segment);

CREATE TABLE holdfast.saved (
    job bigint NOT NULL,
    saved_at timestamp with time zone NOT NULL,
    state jsonb,
    progress jsonb
)
WITH (fillfactor='80');

CREATE TABLE holdfast.scheduled (
    job bigint NOT NULL,
    run_at timestamp with time zone NOT NULL,
    deadline_at timestamp with time zone,
    attempt smallint NOT NULL,
    holds text[]
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE holdfast.waiting (
    job bigint NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone,
    deadline_at timestamp with time zone,
    holds text[]
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE VIEW holdfast.jobs AS
 SELECT j.id,
    j.kind,
    j.queue,
    COALESCE(r.priority, j.priority) AS priority,
        CASE
            WHEN (l.job IS NOT NULL) THEN 'running'::text
            WHEN (r.segment = 8) THEN 'gated'::text
            WHEN (r.job IS NOT NULL) THEN 'ready'::text
            WHEN (s.job IS NOT NULL) THEN 'scheduled'::text
            WHEN (w.job IS NOT NULL) THEN 'waiting'::text
            ELSE COALESCE((f.outcome)::text, 'lost'::text)
        END AS state,
    COALESCE(l.attempt, r.attempt, s.attempt,
        CASE
            WHEN (w.job IS NOT NULL) THEN (0)::smallint
            ELSE NULL::smallint
        END, f.attempt) AS attempt,
    j.max_attempts,
    (j.args)::jsonb AS args,
    j.tags,
    j.unique_key,
    j.created_at,
    s.run_at,
    l.started_at,
    l.worker,
    j.deadline_at,
    f.finished_at,
    f.error,
        CASE
            WHEN ((f.outcome = 'succeeded'::holdfast.outcome) AND (f.flag IS NULL)) THEN COALESCE(f.result, '{}'::jsonb)
            ELSE f.result
        END AS result,
    f.flag,
    l.cancel_requested_at,
    (r.segment = 9) AS is_parked,
    j.origin,
    v.progress,
    j.parent,
    r.limit_name,
    r.limit_key
   FROM ((((((holdfast.job j
     LEFT JOIN holdfast.lease l ON ((l.job = j.id)))
     LEFT JOIN holdfast.ready r ON (((r.queue = j.queue) AND (r.priority = ANY (ARRAY[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])) AND (r.job = j.id))))
     LEFT JOIN holdfast.scheduled s ON ((s.job = j.id)))
     LEFT JOIN holdfast.waiting w ON ((w.job = j.id)))
     LEFT JOIN holdfast.ledger f ON (((f.job = j.id) AND f.is_final)))
     LEFT JOIN holdfast.saved v ON ((v.job = j.id)));

CREATE TABLE holdfast.kind (
    name text NOT NULL,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    priority smallint NOT NULL,
    max_attempts smallint NOT NULL,
    style text NOT NULL,
    queue text NOT NULL,
    version text NOT NULL,
    parameters jsonb NOT NULL,
    backoff jsonb,
    timeout interval,
    keep interval,
    secrets text[] NOT NULL,
    on_lost text,
    tags text[],
    limits jsonb,
    CONSTRAINT kind_name_check CHECK (((char_length(name) >= 1) AND (char_length(name) <= 200)))
);

CREATE TABLE holdfast.knock (
    id bigint NOT NULL,
    job bigint,
    given integer NOT NULL,
    failures integer,
    spent integer,
    closed_for interval,
    priority smallint,
    is_success boolean,
    limit_name text NOT NULL,
    key text NOT NULL
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE holdfast.knock ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME holdfast.knock_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE SEQUENCE holdfast.lane_version
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 100;

CREATE TABLE holdfast.lane (
    version bigint DEFAULT nextval('holdfast.lane_version'::regclass) NOT NULL,
    pass bigint,
    after_job bigint,
    due_at timestamp with time zone,
    open_until timestamp with time zone,
    spent_until timestamp with time zone,
    held integer NOT NULL,
    failures integer,
    after_priority smallint,
    awaited boolean DEFAULT false NOT NULL,
    is_probing boolean DEFAULT false NOT NULL,
    limit_name text NOT NULL,
    key text NOT NULL,
    pending bigint[],
    starts timestamp with time zone[],
    start_costs integer[]
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE holdfast.leader (
    is_only boolean DEFAULT true NOT NULL,
    worker bigint NOT NULL,
    term bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT leader_is_only_check CHECK (is_only)
)
WITH (fillfactor='50');

CREATE TABLE holdfast.limit_key (
    changed_at timestamp with time zone NOT NULL,
    closed_at timestamp with time zone,
    closed_until timestamp with time zone,
    per_key integer,
    weight real,
    limit_name text NOT NULL,
    key text NOT NULL,
    closed_reason text,
    CONSTRAINT limit_key_per_key_check CHECK ((per_key >= 0)),
    CONSTRAINT limit_key_weight_check CHECK ((weight > (0)::double precision))
);

CREATE TABLE holdfast.limit_rule (
    name text NOT NULL,
    declared_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    removed_at timestamp with time zone,
    closed_at timestamp with time zone,
    closed_until timestamp with time zone,
    rate_per interval,
    key_rate_per interval,
    total integer,
    per_key integer,
    rate integer,
    burst integer,
    key_rate integer,
    key_burst integer,
    is_strict boolean DEFAULT false NOT NULL,
    key_is_strict boolean DEFAULT false NOT NULL,
    is_fair boolean DEFAULT false NOT NULL,
    may_be_direct boolean DEFAULT false NOT NULL,
    is_direct boolean DEFAULT false NOT NULL,
    hold text DEFAULT 'run'::text NOT NULL,
    closed_reason text,
    breaker jsonb,
    declared jsonb NOT NULL,
    overrides jsonb,
    CONSTRAINT limit_rule_burst_check CHECK ((burst > 0)),
    CONSTRAINT limit_rule_hold_check CHECK ((hold = ANY (ARRAY['run'::text, 'job'::text]))),
    CONSTRAINT limit_rule_key_burst_check CHECK ((key_burst > 0)),
    CONSTRAINT limit_rule_key_rate_check CHECK ((key_rate > 0)),
    CONSTRAINT limit_rule_key_rate_per_check CHECK ((key_rate_per > '00:00:00'::interval)),
    CONSTRAINT limit_rule_name_check CHECK (((char_length(name) >= 1) AND (char_length(name) <= 200))),
    CONSTRAINT limit_rule_per_key_check CHECK ((per_key >= 0)),
    CONSTRAINT limit_rule_rate_check CHECK ((rate > 0)),
    CONSTRAINT limit_rule_rate_per_check CHECK ((rate_per > '00:00:00'::interval)),
    CONSTRAINT limit_rule_total_check CHECK ((total >= 0))
);

CREATE TABLE holdfast.limit_state (
    version bigint DEFAULT nextval('holdfast.lane_version'::regclass) NOT NULL,
    next_pass bigint DEFAULT 1 NOT NULL,
    open_until timestamp with time zone,
    spent_until timestamp with time zone,
    rule_changed_at timestamp with time zone,
    held integer DEFAULT 0 NOT NULL,
    failures integer,
    is_probing boolean DEFAULT false NOT NULL,
    limit_name text NOT NULL,
    pending bigint[],
    turn bigint[],
    turn_before bigint[],
    starts timestamp with time zone[],
    start_costs integer[]
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE holdfast.migration (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    min_code integer NOT NULL,
    applied_at timestamp with time zone NOT NULL,
    applied_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT migration_check CHECK (((min_code >= 1) AND (min_code <= version)))
);

COMMENT ON TABLE holdfast.migration IS 'Which migrations were applied. Code that does not know min_code is refused: the highest counts.';

CREATE TABLE holdfast.notice (
    job bigint NOT NULL,
    run bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    deadline_at timestamp with time zone,
    said_at timestamp with time zone,
    worker bigint,
    teller bigint,
    outcome holdfast.outcome NOT NULL,
    attempt smallint NOT NULL,
    max_attempts smallint NOT NULL,
    priority smallint NOT NULL,
    tries smallint DEFAULT 0 NOT NULL,
    kind text NOT NULL,
    queue text NOT NULL,
    tags text[],
    origin jsonb,
    error jsonb
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE holdfast.operation (
    id bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    advanced_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone,
    seen bigint DEFAULT 0 NOT NULL,
    state text DEFAULT 'running'::text NOT NULL,
    action text NOT NULL,
    filter text NOT NULL,
    by text NOT NULL,
    reason text,
    cursor text,
    parameters jsonb NOT NULL,
    counts jsonb DEFAULT '{}'::jsonb NOT NULL
)
WITH (fillfactor='70');

ALTER TABLE holdfast.operation ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME holdfast.operation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE holdfast.plan (
    schedule text NOT NULL,
    scope text NOT NULL,
    plan_time timestamp with time zone NOT NULL,
    earliest timestamp with time zone,
    decided_at timestamp with time zone NOT NULL,
    keep_until timestamp with time zone NOT NULL,
    run_at timestamp with time zone,
    job bigint,
    count integer DEFAULT 1 NOT NULL,
    decision text NOT NULL,
    reason text,
    outcome holdfast.outcome,
    attempts smallint,
    error_code text,
    duration interval,
    flag text,
    result jsonb,
    CONSTRAINT plan_count_check CHECK ((count > 0))
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE VIEW holdfast.plans AS
 SELECT p.schedule,
    p.scope,
    p.plan_time,
    p.decision,
    p.reason,
    p.count,
    p.earliest,
    p.decided_at,
    (p.decided_at - p.plan_time) AS lag,
    p.run_at,
    p.job,
    COALESCE((p.outcome)::text, (f.outcome)::text, j.state) AS state,
    COALESCE(p.attempts, f.attempt, j.attempt) AS attempts,
    j.max_attempts,
        CASE
            WHEN ((j.state = 'scheduled'::text) AND (j.attempt > 0)) THEN j.run_at
            ELSE NULL::timestamp with time zone
        END AS next_retry_at,
    COALESCE(p.error_code, (f.error ->> 'code'::text)) AS error_code,
    COALESCE(f.error, j.error) AS error,
    COALESCE(p.duration, (f.finished_at - f.started_at)) AS duration,
        CASE
            WHEN (jsonb_typeof((COALESCE(p.result, f.result) -> 'rows_affected'::text)) = 'number'::text) THEN ((COALESCE(p.result, f.result) ->> 'rows_affected'::text))::numeric
            ELSE NULL::numeric
        END AS rows_affected,
    COALESCE(p.result, f.result) AS result,
    COALESCE(p.flag, f.flag) AS flag
   FROM ((holdfast.plan p
     LEFT JOIN holdfast.ledger f ON (((f.job = p.job) AND f.is_final)))
     LEFT JOIN holdfast.jobs j ON ((j.id = p.job)));

CREATE TABLE holdfast.queue (
    name text NOT NULL,
    paused_at timestamp with time zone,
    paused_until timestamp with time zone,
    pause_note text
);

CREATE TABLE holdfast.ready_0 (
    job bigint CONSTRAINT ready_job_not_null NOT NULL,
    ready_at timestamp with time zone CONSTRAINT ready_ready_at_not_null NOT NULL,
    deadline_at timestamp with time zone,
    attempt smallint CONSTRAINT ready_attempt_not_null NOT NULL,
    priority smallint CONSTRAINT ready_priority_not_null NOT NULL,
    segment smallint CONSTRAINT ready_segment_not_null NOT NULL,
    queue text CONSTRAINT ready_queue_not_null NOT NULL,
    kind text CONSTRAINT ready_kind_not_null NOT NULL,
    limit_name text,
    limit_key text,
    next_limit text,
    next_key text
);

CREATE TABLE holdfast.ready_1 (
    job bigint CONSTRAINT ready_job_not_null NOT NULL,
    ready_at timestamp with time zone CONSTRAINT ready_ready_at_not_null NOT NULL,
    deadline_at timestamp with time zone,
    attempt smallint CONSTRAINT ready_attempt_not_null NOT NULL,
    priority smallint CONSTRAINT ready_priority_not_null NOT NULL,
    segment smallint CONSTRAINT ready_segment_not_null NOT NULL,
    queue text CONSTRAINT ready_queue_not_null NOT NULL,
    kind text CONSTRAINT ready_kind_not_null NOT NULL,
    limit_name text,
    limit_key text,
    next_limit text,
    next_key text
);

CREATE TABLE holdfast.ready_2 (
    job bigint CONSTRAINT ready_job_not_null NOT NULL,
    ready_at timestamp with time zone CONSTRAINT ready_ready_at_not_null NOT NULL,
    deadline_at timestamp with time zone,
    attempt smallint CONSTRAINT ready_attempt_not_null NOT NULL,
    priority smallint CONSTRAINT ready_priority_not_null NOT NULL,
    segment smallint CONSTRAINT ready_segment_not_null NOT NULL,
    queue text CONSTRAINT ready_queue_not_null NOT NULL,
    kind text CONSTRAINT ready_kind_not_null NOT NULL,
    limit_name text,
    limit_key text,
    next_limit text,
    next_key text
);

CREATE TABLE holdfast.ready_3 (
    job bigint CONSTRAINT ready_job_not_null NOT NULL,
    ready_at timestamp with time zone CONSTRAINT ready_ready_at_not_null NOT NULL,
    deadline_at timestamp with time zone,
    attempt smallint CONSTRAINT ready_attempt_not_null NOT NULL,
    priority smallint CONSTRAINT ready_priority_not_null NOT NULL,
    segment smallint CONSTRAINT ready_segment_not_null NOT NULL,
    queue text CONSTRAINT ready_queue_not_null NOT NULL,
    kind text CONSTRAINT ready_kind_not_null NOT NULL,
    limit_name text,
    limit_key text,
    next_limit text,
    next_key text
);

CREATE TABLE holdfast.ready_gated (
    job bigint CONSTRAINT ready_job_not_null NOT NULL,
    ready_at timestamp with time zone CONSTRAINT ready_ready_at_not_null NOT NULL,
    deadline_at timestamp with time zone,
    attempt smallint CONSTRAINT ready_attempt_not_null NOT NULL,
    priority smallint CONSTRAINT ready_priority_not_null NOT NULL,
    segment smallint CONSTRAINT ready_segment_not_null NOT NULL,
    queue text CONSTRAINT ready_queue_not_null NOT NULL,
    kind text CONSTRAINT ready_kind_not_null NOT NULL,
    limit_name text,
    limit_key text,
    next_limit text,
    next_key text
)
WITH (autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='1000');

CREATE TABLE holdfast.ready_parked (
    job bigint CONSTRAINT ready_job_not_null NOT NULL,
    ready_at timestamp with time zone CONSTRAINT ready_ready_at_not_null NOT NULL,
    deadline_at timestamp with time zone,
    attempt smallint CONSTRAINT ready_attempt_not_null NOT NULL,
    priority smallint CONSTRAINT ready_priority_not_null NOT NULL,
    segment smallint CONSTRAINT ready_segment_not_null NOT NULL,
    queue text CONSTRAINT ready_queue_not_null NOT NULL,
    kind text CONSTRAINT ready_kind_not_null NOT NULL,
    limit_name text,
    limit_key text,
    next_limit text,
    next_key text
);

CREATE TABLE holdfast.ring (
    is_only boolean DEFAULT true NOT NULL,
    current smallint DEFAULT 0 NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    turned_at timestamp with time zone,
    closed smallint,
    closed_until timestamp with time zone,
    CONSTRAINT ring_current_check CHECK (((current >= 0) AND (current <= 3))),
    CONSTRAINT ring_is_only_check CHECK (is_only)
)
WITH (fillfactor='50');

CREATE SEQUENCE holdfast.run
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE holdfast.run_log (
    job bigint NOT NULL,
    run bigint NOT NULL,
    written_at timestamp with time zone NOT NULL,
    first integer NOT NULL,
    last integer NOT NULL,
    lines json NOT NULL
);

CREATE TABLE holdfast.schedule (
    name text NOT NULL,
    version bigint DEFAULT 1 NOT NULL,
    created_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    declared_at timestamp with time zone,
    has_scopes boolean DEFAULT false NOT NULL,
    timing jsonb NOT NULL,
    rules jsonb DEFAULT '{}'::jsonb NOT NULL,
    history interval DEFAULT '30 days'::interval NOT NULL,
    paused_at timestamp with time zone,
    paused_until timestamp with time zone,
    pause_note text,
    priority smallint DEFAULT 5 NOT NULL,
    max_attempts smallint DEFAULT 20 NOT NULL,
    kind text NOT NULL,
    queue text DEFAULT 'default'::text NOT NULL,
    args jsonb DEFAULT '{}'::jsonb NOT NULL,
    backoff jsonb,
    timeout interval,
    keep interval,
    on_lost text,
    tags text[],
    error text,
    CONSTRAINT schedule_args_check CHECK ((jsonb_typeof(args) = 'object'::text)),
    CONSTRAINT schedule_created_at_check CHECK (((created_at >= '1900-01-01 00:00:00+00'::timestamp with time zone) AND (created_at <= '9001-01-01 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT schedule_declared_at_check CHECK (isfinite(declared_at)),
    CONSTRAINT schedule_history_check CHECK (((history >= '00:00:00'::interval) AND (history <= '36525 days'::interval))),
    CONSTRAINT schedule_keep_check CHECK (((keep >= '00:00:00'::interval) AND (keep <= '36525 days'::interval))),
    CONSTRAINT schedule_kind_check CHECK (((char_length(kind) >= 1) AND (char_length(kind) <= 200))),
    CONSTRAINT schedule_max_attempts_check CHECK ((max_attempts > 0)),
    CONSTRAINT schedule_name_check CHECK (((char_length(name) >= 1) AND (char_length(name) <= 200))),
    CONSTRAINT schedule_on_lost_check CHECK ((on_lost = ANY (ARRAY['retry'::text, 'fail'::text]))),
    CONSTRAINT schedule_paused_at_check CHECK (isfinite(paused_at)),
    CONSTRAINT schedule_paused_until_check CHECK (isfinite(paused_until)),
    CONSTRAINT schedule_priority_check CHECK (((priority >= 0) AND (priority <= 9))),
    CONSTRAINT schedule_queue_check CHECK (((char_length(queue) >= 1) AND (char_length(queue) <= 200))),
    CONSTRAINT schedule_timeout_check CHECK (((timeout > '00:00:00'::interval) AND (timeout <= '36525 days'::interval)))
);

CREATE TABLE holdfast.schedule_scope (
    schedule text NOT NULL,
    scope text DEFAULT ''::text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    since_at timestamp with time zone NOT NULL,
    last_plan_at timestamp with time zone,
    next_at timestamp with time zone,
    pruned_until timestamp with time zone,
    gone_at timestamp with time zone,
    job bigint,
    skips timestamp with time zone[],
    zone text,
    args jsonb,
    error text,
    CONSTRAINT schedule_scope_args_check CHECK ((jsonb_typeof(args) = 'object'::text)),
    CONSTRAINT schedule_scope_created_at_check CHECK (isfinite(created_at)),
    CONSTRAINT schedule_scope_gone_at_check CHECK (isfinite(gone_at)),
    CONSTRAINT schedule_scope_last_plan_at_check CHECK (((last_plan_at >= '1900-01-01 00:00:00+00'::timestamp with time zone) AND (last_plan_at <= '9001-01-01 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT schedule_scope_next_at_check CHECK (isfinite(next_at)),
    CONSTRAINT schedule_scope_pruned_until_check CHECK (isfinite(pruned_until)),
    CONSTRAINT schedule_scope_schedule_check CHECK (((char_length(schedule) >= 1) AND (char_length(schedule) <= 200))),
    CONSTRAINT schedule_scope_scope_check CHECK ((char_length(scope) <= 200)),
    CONSTRAINT schedule_scope_since_at_check CHECK (((since_at >= '1900-01-01 00:00:00+00'::timestamp with time zone) AND (since_at <= '9001-01-01 00:00:00+00'::timestamp with time zone))),
    CONSTRAINT schedule_scope_skips_check CHECK (((NOT ('infinity'::timestamp with time zone = ANY (skips))) AND (NOT ('-infinity'::timestamp with time zone = ANY (skips)))))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE holdfast.superseded (
    job bigint NOT NULL,
    by bigint NOT NULL
);

CREATE TABLE holdfast.tally (
    id bigint NOT NULL,
    minute timestamp with time zone NOT NULL,
    outcome holdfast.outcome NOT NULL,
    queue text NOT NULL,
    kind text NOT NULL,
    runs bigint NOT NULL,
    run_time interval NOT NULL,
    began timestamp with time zone,
    wait_time interval,
    shares integer[],
    wait_buckets smallint[],
    run_buckets smallint[]
);

ALTER TABLE holdfast.tally ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME holdfast.tally_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE holdfast.unique_key (
    queue text NOT NULL,
    key text NOT NULL,
    job bigint NOT NULL,
    until timestamp with time zone
);

CREATE TABLE holdfast.wait (
    job bigint NOT NULL,
    is_eager boolean NOT NULL,
    name text NOT NULL,
    key text
)
WITH (autovacuum_vacuum_scale_factor='0.02');

CREATE TABLE holdfast.wakeup (
    id bigint NOT NULL,
    job bigint,
    child bigint,
    key text
)
WITH (autovacuum_vacuum_scale_factor='0.02');

ALTER TABLE holdfast.wakeup ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME holdfast.wakeup_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE holdfast.worker (
    id bigint NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    kinds text[] NOT NULL,
    slots integer NOT NULL,
    started_at timestamp with time zone NOT NULL,
    beat_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    lost_at timestamp with time zone,
    hears jsonb,
    queue_slots integer[],
    activity text
)
WITH (fillfactor='50');

ALTER TABLE holdfast.worker ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME holdfast.worker_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE holdfast.worker_request (
    worker bigint NOT NULL,
    asked_at timestamp with time zone NOT NULL,
    activity text,
    grace interval,
    by text,
    reason text,
    slots jsonb DEFAULT '{}'::jsonb NOT NULL
);

ALTER TABLE ONLY holdfast.ready ATTACH PARTITION holdfast.ready_0 FOR VALUES IN ('0');

ALTER TABLE ONLY holdfast.ready ATTACH PARTITION holdfast.ready_1 FOR VALUES IN ('1');

ALTER TABLE ONLY holdfast.ready ATTACH PARTITION holdfast.ready_2 FOR VALUES IN ('2');

ALTER TABLE ONLY holdfast.ready ATTACH PARTITION holdfast.ready_3 FOR VALUES IN ('3');

ALTER TABLE ONLY holdfast.ready ATTACH PARTITION holdfast.ready_gated FOR VALUES IN ('8');

ALTER TABLE ONLY holdfast.ready ATTACH PARTITION holdfast.ready_parked FOR VALUES IN ('9');

ALTER TABLE ONLY holdfast.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (id);

ALTER TABLE ONLY holdfast.beginning_hour
    ADD CONSTRAINT beginning_hour_pkey PRIMARY KEY (hour, queue, kind);

ALTER TABLE ONLY holdfast.beginning
    ADD CONSTRAINT beginning_pkey PRIMARY KEY (minute, queue, kind);

ALTER TABLE ONLY holdfast.checkpoint
    ADD CONSTRAINT checkpoint_pkey PRIMARY KEY (job, name);

ALTER TABLE ONLY holdfast.counter_hour
    ADD CONSTRAINT counter_hour_pkey PRIMARY KEY (hour, queue, kind, outcome);

ALTER TABLE ONLY holdfast.counter
    ADD CONSTRAINT counter_pkey PRIMARY KEY (minute, queue, kind, outcome);

ALTER TABLE ONLY holdfast.dead
    ADD CONSTRAINT dead_pkey PRIMARY KEY (job);

ALTER TABLE ONLY holdfast.enqueue_mark
    ADD CONSTRAINT enqueue_mark_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY holdfast.enqueue_tally
    ADD CONSTRAINT enqueue_tally_pkey PRIMARY KEY (id);

ALTER TABLE ONLY holdfast.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (id);

ALTER TABLE ONLY holdfast.failure_count
    ADD CONSTRAINT failure_count_pkey PRIMARY KEY (fingerprint, began_at, kind, queue);

ALTER TABLE ONLY holdfast.failure_group
    ADD CONSTRAINT failure_group_pkey PRIMARY KEY (fingerprint);

ALTER TABLE ONLY holdfast.failure_tally
    ADD CONSTRAINT failure_tally_pkey PRIMARY KEY (id);

ALTER TABLE ONLY holdfast.group_member
    ADD CONSTRAINT group_member_pkey PRIMARY KEY (job_group, place);

ALTER TABLE ONLY holdfast.job_group
    ADD CONSTRAINT job_group_pkey PRIMARY KEY (id);

ALTER TABLE ONLY holdfast.job
    ADD CONSTRAINT job_pkey PRIMARY KEY (id);

ALTER TABLE ONLY holdfast.kind
    ADD CONSTRAINT kind_pkey PRIMARY KEY (name);

ALTER TABLE ONLY holdfast.knock
    ADD CONSTRAINT knock_pkey PRIMARY KEY (limit_name, id);

ALTER TABLE ONLY holdfast.lane
    ADD CONSTRAINT lane_pkey PRIMARY KEY (limit_name, key, version);

ALTER TABLE ONLY holdfast.leader
    ADD CONSTRAINT leader_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY holdfast.lease
    ADD CONSTRAINT lease_pkey PRIMARY KEY (worker, job);

ALTER TABLE ONLY holdfast.ledger
    ADD CONSTRAINT ledger_pkey PRIMARY KEY (job, run);

ALTER TABLE ONLY holdfast.limit_key
    ADD CONSTRAINT limit_key_pkey PRIMARY KEY (limit_name, key);

ALTER TABLE ONLY holdfast.limit_rule
    ADD CONSTRAINT limit_rule_pkey PRIMARY KEY (name);

ALTER TABLE ONLY holdfast.limit_state
    ADD CONSTRAINT limit_state_pkey PRIMARY KEY (limit_name, version);

ALTER TABLE ONLY holdfast.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);

ALTER TABLE ONLY holdfast.notice
    ADD CONSTRAINT notice_pkey PRIMARY KEY (kind, job, run);

ALTER TABLE ONLY holdfast.operation
    ADD CONSTRAINT operation_pkey PRIMARY KEY (id);

ALTER TABLE ONLY holdfast.plan
    ADD CONSTRAINT plan_identity PRIMARY KEY (schedule, plan_time, scope);

ALTER TABLE ONLY holdfast.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY holdfast.ready
    ADD CONSTRAINT ready_pkey PRIMARY KEY (queue, priority, job, segment);

ALTER TABLE ONLY holdfast.ready_0
    ADD CONSTRAINT ready_0_pkey PRIMARY KEY (queue, priority, job, segment);

ALTER TABLE ONLY holdfast.ready_1
    ADD CONSTRAINT ready_1_pkey PRIMARY KEY (queue, priority, job, segment);

ALTER TABLE ONLY holdfast.ready_2
    ADD CONSTRAINT ready_2_pkey PRIMARY KEY (queue, priority, job, segment);

ALTER TABLE ONLY holdfast.ready_3
    ADD CONSTRAINT ready_3_pkey PRIMARY KEY (queue, priority, job, segment);

ALTER TABLE ONLY holdfast.ready_gated
    ADD CONSTRAINT ready_gated_pkey PRIMARY KEY (queue, priority, job, segment);

ALTER TABLE ONLY holdfast.ready_parked
    ADD CONSTRAINT ready_parked_pkey PRIMARY KEY (queue, priority, job, segment);

ALTER TABLE ONLY holdfast.ring
    ADD CONSTRAINT ring_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY holdfast.run_log
    ADD CONSTRAINT run_log_pkey PRIMARY KEY (job, run, last);

ALTER TABLE ONLY holdfast.saved
    ADD CONSTRAINT saved_pkey PRIMARY KEY (job);

ALTER TABLE ONLY holdfast.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (name);

ALTER TABLE ONLY holdfast.schedule_scope
    ADD CONSTRAINT schedule_scope_pkey PRIMARY KEY (schedule, scope);

ALTER TABLE ONLY holdfast.scheduled
    ADD CONSTRAINT scheduled_pkey PRIMARY KEY (job);

ALTER TABLE ONLY holdfast.superseded
    ADD CONSTRAINT superseded_pkey PRIMARY KEY (job);

ALTER TABLE ONLY holdfast.tally
    ADD CONSTRAINT tally_pkey PRIMARY KEY (id);

ALTER TABLE ONLY holdfast.unique_key
    ADD CONSTRAINT unique_key_pkey PRIMARY KEY (queue, key);

ALTER TABLE ONLY holdfast.wait
    ADD CONSTRAINT wait_pkey PRIMARY KEY (job, name);

ALTER TABLE ONLY holdfast.waiting
    ADD CONSTRAINT waiting_pkey PRIMARY KEY (job);

ALTER TABLE ONLY holdfast.wakeup
    ADD CONSTRAINT wakeup_pkey PRIMARY KEY (id);

ALTER TABLE ONLY holdfast.worker
    ADD CONSTRAINT worker_pkey PRIMARY KEY (id);

ALTER TABLE ONLY holdfast.worker_request
    ADD CONSTRAINT worker_request_pkey PRIMARY KEY (worker);

CREATE INDEX audit_at ON holdfast.audit USING btree (at);

CREATE INDEX checkpoint_child ON holdfast.checkpoint USING btree (child) WHERE ((child IS NOT NULL) AND (NOT is_done));

CREATE INDEX checkpoint_open ON holdfast.checkpoint USING btree (job) WHERE (NOT is_done);

CREATE INDEX dead_died_at ON holdfast.dead USING btree (died_at, job);

CREATE INDEX dead_fingerprint ON holdfast.dead USING btree (fingerprint, job) WHERE (fingerprint IS NOT NULL);

CREATE INDEX event_keep_until ON holdfast.event USING btree (keep_until);

CREATE INDEX event_key ON holdfast.event USING btree (key, id);

CREATE INDEX failure_count_began_at ON holdfast.failure_count USING btree (began_at);

CREATE INDEX failure_group_last_seen_at ON holdfast.failure_group USING btree (last_seen_at, fingerprint);

CREATE INDEX group_member_job ON holdfast.group_member USING btree (job);

CREATE INDEX job_group_keep_until ON holdfast.job_group USING btree (keep_until) WHERE (keep_until IS NOT NULL);

CREATE INDEX job_group_open ON holdfast.job_group USING btree (id) WHERE (ended_at IS NULL);

CREATE INDEX lane_due ON holdfast.lane USING btree (limit_name, due_at) WHERE (due_at IS NOT NULL);

CREATE INDEX lane_pending ON holdfast.lane USING btree (limit_name) WHERE (pending IS NOT NULL);

CREATE INDEX lane_turn ON holdfast.lane USING btree (limit_name, pass) WHERE (pass IS NOT NULL);

CREATE INDEX ledger_keep_until ON holdfast.ledger USING btree (keep_until) WHERE is_final;

CREATE INDEX ledger_stopped ON holdfast.ledger USING btree (job) WHERE (is_final AND (outcome = ANY (ARRAY['cancelled'::holdfast.outcome, 'expired'::holdfast.outcome])));

CREATE INDEX notice_said_at ON holdfast.notice USING btree (said_at, at);

CREATE INDEX operation_running ON holdfast.operation USING btree (id) WHERE (ended_at IS NULL);

CREATE INDEX plan_keep_until ON holdfast.plan USING btree (keep_until);

CREATE INDEX ready_deadline ON ONLY holdfast.ready USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX ready_0_deadline_at_idx ON holdfast.ready_0 USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX ready_1_deadline_at_idx ON holdfast.ready_1 USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX ready_2_deadline_at_idx ON holdfast.ready_2 USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX ready_3_deadline_at_idx ON holdfast.ready_3 USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX ready_gated_deadline_at_idx ON holdfast.ready_gated USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX ready_gated_lane ON holdfast.ready_gated USING btree (limit_name, limit_key, priority, job) WHERE (limit_name IS NOT NULL);

CREATE INDEX ready_parked_deadline_at_idx ON holdfast.ready_parked USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX ready_parked_kind ON holdfast.ready_parked USING btree (queue, kind);

CREATE INDEX ring_version ON holdfast.ring USING btree (version);

CREATE INDEX schedule_scope_next_at ON holdfast.schedule_scope USING btree (next_at) WHERE (next_at IS NOT NULL);

CREATE INDEX scheduled_deadline ON holdfast.scheduled USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX scheduled_holds ON holdfast.scheduled USING btree (job) WHERE (holds IS NOT NULL);

CREATE INDEX scheduled_run_at ON holdfast.scheduled USING btree (run_at);

CREATE INDEX unique_key_job ON holdfast.unique_key USING btree (job);

CREATE INDEX unique_key_until ON holdfast.unique_key USING btree (until) WHERE (until IS NOT NULL);

CREATE INDEX wait_key ON holdfast.wait USING btree (key) WHERE (key IS NOT NULL);

CREATE INDEX waiting_deadline ON holdfast.waiting USING btree (deadline_at) WHERE (deadline_at IS NOT NULL);

CREATE INDEX waiting_holds ON holdfast.waiting USING btree (job) WHERE (holds IS NOT NULL);

CREATE INDEX waiting_until ON holdfast.waiting USING btree (until) WHERE (until IS NOT NULL);

ALTER INDEX holdfast.ready_deadline ATTACH PARTITION holdfast.ready_0_deadline_at_idx;

ALTER INDEX holdfast.ready_pkey ATTACH PARTITION holdfast.ready_0_pkey;

ALTER INDEX holdfast.ready_deadline ATTACH PARTITION holdfast.ready_1_deadline_at_idx;

ALTER INDEX holdfast.ready_pkey ATTACH PARTITION holdfast.ready_1_pkey;

ALTER INDEX holdfast.ready_deadline ATTACH PARTITION holdfast.ready_2_deadline_at_idx;

ALTER INDEX holdfast.ready_pkey ATTACH PARTITION holdfast.ready_2_pkey;

ALTER INDEX holdfast.ready_deadline ATTACH PARTITION holdfast.ready_3_deadline_at_idx;

ALTER INDEX holdfast.ready_pkey ATTACH PARTITION holdfast.ready_3_pkey;

ALTER INDEX holdfast.ready_deadline ATTACH PARTITION holdfast.ready_gated_deadline_at_idx;

ALTER INDEX holdfast.ready_pkey ATTACH PARTITION holdfast.ready_gated_pkey;

ALTER INDEX holdfast.ready_deadline ATTACH PARTITION holdfast.ready_parked_deadline_at_idx;

ALTER INDEX holdfast.ready_pkey ATTACH PARTITION holdfast.ready_parked_pkey;
