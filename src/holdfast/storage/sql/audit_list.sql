-- What operators did, newest first, up to %(limit)s before %(before)s. Leans on the primary key. Locks nothing.
select id, at, action, by, target, reason, counts::text
  from {schema}.audit
 where id < coalesce(%(before)s::bigint, 9223372036854775807)
   and (%(by)s::text is null or by = %(by)s::text)
   and (%(action)s::text is null or action = %(action)s::text)
 order by id desc
 limit %(limit)s::int
