-- Jobs that hold a permit of limit %(limit)s, of %(key)s if it is given: those that run, longest first, and those that keep it while they
-- wait for their next run; up to %(most)s. Those that are ready, and not claimed yet, are not among them: nothing says quickly which they are.
-- Reads all leases, of which there are as many as jobs that run, and scheduled_holds and waiting_holds. Locks nothing.
select h.job, h.state, h.kind, h.key, h.since
  from (select l.job, 'running' as state, j.kind, j.limit_keys[array_position(j.limits, %(limit)s::text)] as key, l.started_at as since
          from {schema}.lease l
         cross join lateral (
           select kind, limits, limit_keys from {schema}.job where id = l.job and limits is not null offset 0) j
         where %(limit)s::text = any(j.limits)
        union all
        select s.job, 'scheduled', j.kind, j.limit_keys[array_position(j.limits, %(limit)s::text)], null
          from {schema}.scheduled s
         cross join lateral (select kind, limits, limit_keys from {schema}.job where id = s.job offset 0) j
         where s.holds is not null and %(limit)s::text = any(s.holds)
        union all
        select w.job, 'waiting', j.kind, j.limit_keys[array_position(j.limits, %(limit)s::text)], w.since
          from {schema}.waiting w
         cross join lateral (select kind, limits, limit_keys from {schema}.job where id = w.job offset 0) j
         where w.holds is not null and %(limit)s::text = any(w.holds)) h
 where %(key)s::text is null or h.key = %(key)s::text
 order by h.since nulls last, h.job
 limit %(most)s::int
