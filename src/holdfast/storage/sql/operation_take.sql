-- Take an operation that has not ended, to advance it by a batch in this transaction: the one that is named, or the first that no
-- process has advanced for %(idle)s. No row: it has ended, or another process has it right now. Locks its row, skipping a locked one.
select id, action, filter, by, reason, cursor, parameters::text, counts::text, seen
  from {schema}.operation
 where ended_at is null
   and (%(id)s::bigint is null or id = %(id)s::bigint)
   and (%(idle)s::interval is null
        or advanced_at <= coalesce(%(now)s::timestamptz, statement_timestamp()) - %(idle)s::interval)
 order by id
 limit 1
   for update skip locked
