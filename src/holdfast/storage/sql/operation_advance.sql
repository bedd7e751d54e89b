-- Note what a batch did, and where the next one begins; without a cursor the operation is done. In the transaction of the batch.
-- Answers whether it goes on.
update {schema}.operation
   set advanced_at = t.now, cursor = %(cursor)s::text, counts = %(counts)s::text::jsonb, seen = %(seen)s::bigint,
       state = case when %(cursor)s::text is null then 'done' else state end,
       ended_at = case when %(cursor)s::text is null then t.now end
  from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) t
 where id = %(id)s::bigint
returning ended_at is null
