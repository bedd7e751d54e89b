-- A page of groups, newest first: those in one of the %(states)s, with that %(name)s, before %(before)s. Looks at no more than the latest 10,000.
-- Locks nothing; leans on the primary key of job_group.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), latest as materialized (
  select {part group_columns}
    from clock, (select * from {schema}.job_group
                  where id < coalesce(%(before)s::bigint, 9223372036854775807)
                  order by id desc limit 10000) g
)
select * from latest
 where (%(states)s::text[] is null or state = any(%(states)s::text[]))
   and (%(name)s::text is null or name = %(name)s::text)
   and (%(tags)s::text::text[] is null or tags @> %(tags)s::text::text[])
 order by id desc
 limit %(limit)s::int
