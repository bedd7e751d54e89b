-- How often the group g failed, of the runs of %(kind)s and %(queue)s if they are given, in the last hour, day and week, and since
-- %(since)s ago: counted in steps of ten minutes, of which the first is counted whole. Leans on the primary key of failure_count:
-- rows are compared, so that no other index can serve.
(select coalesce(sum(runs) filter (where began_at > clock.now - interval '70 minutes'), 0)::bigint as last_hour,
            coalesce(sum(runs) filter (where began_at > clock.now - interval '1 day 10 minutes'), 0)::bigint as last_day,
            coalesce(sum(runs), 0)::bigint as last_week,
            coalesce(sum(runs) filter (where began_at > clock.now - %(since)s::interval - interval '10 minutes'), 0)::bigint as runs,
            coalesce(array_agg(distinct c.kind), '{}') as kinds, coalesce(array_agg(distinct c.queue), '{}') as queues
       from {schema}.failure_count c
      where (c.fingerprint, c.began_at) > (g.fingerprint, clock.now - interval '7 days 10 minutes')
        and (c.fingerprint, c.began_at) < (g.fingerprint, timestamptz 'infinity')
        and (%(kind)s::text is null or c.kind = %(kind)s::text)
        and (%(queue)s::text is null or c.queue = %(queue)s::text))
