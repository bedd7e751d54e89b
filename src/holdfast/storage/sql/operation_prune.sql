-- Forget operations that ended more than %(keep)s ago, up to %(limit)s. There are few of them. Answers how many.
with old as (
  delete from {schema}.operation
   where id = any(array(select id from {schema}.operation
                         where ended_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(keep)s::interval
                         order by id limit %(limit)s::int))
  returning id
)
select count(*)::int from old
