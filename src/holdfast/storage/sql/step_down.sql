-- Give up leading, so that another worker leads at once. Answers the term given up, if it was ours.
update {schema}.leader
   set expires_at = '-infinity'
 where worker = %(worker)s::bigint
   and expires_at > coalesce(%(now)s::timestamptz, statement_timestamp())
returning term
