-- Say how many members a group has, in the transaction that has written it: only now it is complete. One that has none, or guests, which may
-- have ended before, is told to the leader. Locks the row, which nobody else sees yet. Leans on its primary key.
-- Answers the id.
with filled as (
  update {schema}.job_group
     set members = %(members)s::int, guests = %(guests)s::int
   where id = %(job_group)s::bigint
  returning id
)
select id from filled
 where (%(members)s::int > 0 and %(guests)s::int = 0) or pg_notify('{schema_name}.group', '') is not null
