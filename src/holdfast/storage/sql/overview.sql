-- What an overview counts and looks for, apart from queues, figures and failures. How many jobs are in each state is counted up to
-- %(cap)s. Silent workers are those whose heartbeat is overdue, and those that were given up within the hour: the first 20.
-- Always one row. Leans on primary keys, scheduled_run_at and schedule_scope_next_at. Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), silent as materialized (
  select w.id, w.host, w.pid, w.beat_at, w.lost_at is not null as is_lost
    from clock, {schema}.worker w
   where w.expires_at <= clock.now and (w.lost_at is null or w.lost_at > clock.now - interval '1 hour')
   order by w.id
   limit 20
)
select clock.now,
       (select count(*)::int from (select from {schema}.ready where segment <> 8 limit %(cap)s::int) c) as ready,
       (select count(*)::int from (select from {schema}.ready_gated limit %(cap)s::int) c) as gated,
       (select count(*)::int from (select from {schema}.scheduled limit %(cap)s::int) c) as scheduled,
       (select count(*)::int from (select from {schema}.waiting limit %(cap)s::int) c) as waiting,
       (select count(*)::int from (select from {schema}.lease limit %(cap)s::int) c) as running,
       (select count(*)::int from (select from {schema}.dead limit %(cap)s::int) c) as failed,
       (select count(*)::int from {schema}.worker w where w.lost_at is null and w.expires_at > clock.now) as live_workers,
       (select l.worker from {schema}.leader l where l.expires_at > clock.now limit 1) as leader,
       (select clock.now - min(s.run_at) from {schema}.scheduled s where s.run_at < clock.now) as overdue,
       array(select id from silent order by id) as silent, array(select host from silent order by id) as silent_hosts,
       array(select pid from silent order by id) as silent_pids, array(select beat_at from silent order by id) as silent_since,
       array(select is_lost from silent order by id) as are_lost
  from clock
