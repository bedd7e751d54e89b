-- A number for autoscalers: how many jobs of a queue a worker could take now.
-- min_code: 1

-- Jobs of a queue that are ready and before their deadline, counted up to up_to, so that it costs the same behind a million. Parked
-- jobs do not count, which no live worker knows or whose queue is paused; and none counts while the queue is paused. with_running
-- also counts those that run: an autoscaler that asks for both takes no worker away that still has work. `now` is for tests. Reads the front of the
-- primary key of ready, in each segment that workers claim from, and of lease all rows, of which there are no more than slots.
create function {schema}.backlog(queue text, up_to integer default 1000, with_running boolean default false,
                                 now timestamptz default null)
returns integer language sql stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
as $function$
  select least(up_to, (waiting.jobs + running.jobs)::integer)
    from (select count(*) as jobs
            from (select from {schema}.ready r
                   where r.segment in (0, 1, 2, 3)
                     and r.queue = backlog.queue
                     and (r.deadline_at is null or r.deadline_at > coalesce(now, statement_timestamp()))
                     and not exists (
                           select from {schema}.queue q
                            where q.name = backlog.queue and q.paused_at is not null
                              and (q.paused_until is null or q.paused_until > coalesce(now, statement_timestamp())))
                   order by r.priority, r.job
                   limit greatest(up_to, 0)) counted) waiting,
         (select count(*) as jobs
            from (select from {schema}.lease l
                   where with_running and l.queue = backlog.queue
                   limit greatest(up_to, 0)) counted) running
$function$;
