-- Let an operation do no more; what it did stays done. Waits for a batch under way. Answers its number; no row if it has ended.
update {schema}.operation
   set state = 'stopped', ended_at = coalesce(%(now)s::timestamptz, statement_timestamp())
 where id = %(id)s::bigint and ended_at is null
returning id
