-- Forget what operators did more than %(keep)s ago, up to %(limit)s entries. Leans on audit_at. Answers how many.
with old as (
  delete from {schema}.audit
   where id = any(array(select id from {schema}.audit
                         where at < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(keep)s::interval
                         order by at limit %(limit)s::int))
  returning id
)
select count(*)::int from old
