-- Give up leading, and tell the other workers, so that another leads at once. Answers the term given up, if it was ours.
with given as (
  update {schema}.leader
     set expires_at = '-infinity'
   where worker = %(worker)s::bigint
     and expires_at > coalesce(%(now)s::timestamptz, statement_timestamp())
  returning term
), told as materialized (
  select pg_notify('{schema_name}.leader', 'vacant') from given
)
select term from given, (select count(*) from told) as everyone
