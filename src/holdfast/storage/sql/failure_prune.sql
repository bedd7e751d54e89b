-- Delete counts of failures that are older than %(keep_counts)s, and groups that were last seen more than %(keep_groups)s ago: up to
-- %(limit)s of each. Skips locked rows. Leans on failure_count_began_at and failure_group_last_seen_at. Answers how many.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), old_counts as materialized (
  select c.ctid as place
    from {schema}.failure_count c
   where c.began_at < (select now from clock) - %(keep_counts)s::interval
   order by c.began_at
   limit %(limit)s::int
     for update skip locked
), old_groups as materialized (
  select g.ctid as place
    from {schema}.failure_group g
   where g.last_seen_at < (select now from clock) - %(keep_groups)s::interval
   order by g.last_seen_at
   limit %(limit)s::int
     for update skip locked
), out_of_counts as (
  delete from {schema}.failure_count c using old_counts o where c.ctid = o.place
), out_of_groups as (
  delete from {schema}.failure_group g using old_groups o where g.ctid = o.place
)
select ((select count(*) from old_counts) + (select count(*) from old_groups))::int
