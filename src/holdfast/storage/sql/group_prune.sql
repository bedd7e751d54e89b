-- Delete up to %(limit)s members of groups that were kept for long enough, and the groups that have none left.
-- Skips locked groups; leans on job_group_keep_until and the primary key of group_member. Answers how many rows.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), old as materialized (
  select id from {schema}.job_group
   where keep_until <= (select now from clock)
   order by keep_until
   limit 100
     for update skip locked
), picked as materialized (
  select m.place
    from old o
   cross join lateral (
     select ctid as place from {schema}.group_member where job_group = o.id limit %(limit)s::int) m
   limit %(limit)s::int
), left_behind as (
  delete from {schema}.group_member where ctid = any(array(select place from picked)) returning job_group
), emptied as (
  delete from {schema}.job_group g
   where g.id = any(array(select id from old))
     and not exists (
           select from {schema}.group_member m
            where m.job_group = g.id and m.ctid <> all(array(select place from picked)) offset 0)
  returning g.id
)
select ((select count(*) from left_behind) + (select count(*) from emptied))::int
