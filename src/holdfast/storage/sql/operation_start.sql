-- Begin an operation, and tell the leader, which goes on with it unless another process does. Answers its number.
with begun as (
  insert into {schema}.operation (created_at, advanced_at, action, filter, by, reason, cursor, parameters)
  select t.now, t.now, %(action)s::text, %(filter)s::text, %(by)s::text, %(reason)s::text, %(cursor)s::text,
         %(parameters)s::text::jsonb
    from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) t
  returning id
)
select id from begun, (select pg_notify('{schema_name}.leader', 'operation')) as everyone
