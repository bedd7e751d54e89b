-- Of job %(job)s, which waits at the gate of %(limit)s with %(key)s: how many wait there before it, up to %(cap)s, and how long runs of its kind have
-- taken on average in the last hour, in seconds. Always one row. Leans on ready_gated_lane and counter's key; locks nothing.
select (select count(*)
          from (select from {schema}.ready_gated
                 where limit_name = %(limit)s::text and limit_key = %(key)s::text
                   and (priority, job) < (%(priority)s::smallint, %(job)s::bigint)
                 order by priority, job
                 limit %(cap)s::int) ahead)::int as ahead,
       (select extract(epoch from sum(run_time)) / nullif(sum(runs), 0)
          from {schema}.counter
         where minute >= coalesce(%(now)s::timestamptz, statement_timestamp()) - interval '1 hour'
           and kind = %(kind)s::text)::float8 as usual
