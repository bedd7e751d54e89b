-- Operations, newest first, up to %(limit)s before %(before)s; or the one that is named. Leans on the primary key. Locks nothing.
select id, action, filter, by, reason, parameters::text, counts::text, seen, state, created_at, advanced_at, ended_at,
       coalesce(%(now)s::timestamptz, statement_timestamp()) as now
  from {schema}.operation
 where id < coalesce(%(before)s::bigint, 9223372036854775807)
   and (%(id)s::bigint is null or id = %(id)s::bigint)
 order by id desc
 limit %(limit)s::int
