-- Workers by id, up to %(limit)s behind %(after)s, or the one that is %(worker)s: lost ones too, for as long as they are
-- remembered, with what operators ask of each. Of what each runs: how many jobs, and the first %(runs)s that began, with a kind that is looked up if its lease
-- does not have it. A worker has at most as many leases as slots.
-- Leans on the primary keys of worker and lease. Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), shown as materialized (
  select id, host, pid, version, queues, kinds, slots, queue_slots, activity, started_at, beat_at, expires_at, lost_at
    from {schema}.worker
   where id > coalesce(%(after)s::bigint, -9223372036854775808)
     and (%(worker)s::bigint is null or id = %(worker)s::bigint)
   order by id
   limit %(limit)s::int
)
select s.id, s.host, s.pid, s.version, s.queues, s.kinds, s.slots, s.queue_slots, s.activity, s.started_at, s.beat_at, s.expires_at, s.lost_at,
       exists (select from {schema}.leader l where l.worker = s.id and l.expires_at > clock.now) as is_leader,
       coalesce(first.used, 0) as used,
       coalesce(first.jobs, '{}') as jobs, coalesce(first.job_kinds, '{}') as job_kinds,
       coalesce(first.attempts, '{}') as attempts, coalesce(first.since, '{}') as since,
       coalesce(first.are_cancelling, '{}') as are_cancelling,
       r.activity as asked_activity, r.asked_at, r.by as asked_by, r.reason as asked_reason, r.grace as asked_grace,
       coalesce(r.slots, '{}')::text as asked_slots, clock.now
  from shown s
 cross join clock
  left join {schema}.worker_request r on r.worker = s.id
 cross join lateral (
   select max(h.used)::int as used,
          array_agg(h.job order by h.started_at, h.job) as jobs,
          array_agg(coalesce(h.kind, (select j.kind from {schema}.job j where j.id = h.job), '')
                    order by h.started_at, h.job) as job_kinds,
          array_agg(h.attempt order by h.started_at, h.job) as attempts,
          array_agg(h.started_at order by h.started_at, h.job) as since,
          array_agg(h.cancel_requested_at is not null order by h.started_at, h.job) as are_cancelling
     from (select job, kind, attempt, started_at, cancel_requested_at, count(*) over () as used
             from {schema}.lease
            where worker = s.id
            order by started_at, job
            limit %(runs)s::int) h
 ) first
 order by s.id
