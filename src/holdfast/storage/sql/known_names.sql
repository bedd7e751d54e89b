-- The queues that live workers serve and the kinds that they know. Always one row. Locks nothing.
with alive as materialized (
  select queues, kinds from {schema}.worker
   where lost_at is null and expires_at > coalesce(%(now)s::timestamptz, statement_timestamp())
)
select array(select distinct q from alive, unnest(queues) as q order by q) as queues,
       array(select distinct k from alive, unnest(kinds) as k order by k) as kinds
