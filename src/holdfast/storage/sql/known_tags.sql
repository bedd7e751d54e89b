-- The tags that kinds declare, and those of the latest %(searched)s jobs: to show what may have been meant. Locks nothing. Leans on job_pkey.
select distinct tag
  from (select unnest(tags) as tag from {schema}.kind
         union all
        select unnest(tags) from (select tags from {schema}.job order by id desc limit %(searched)s::int) latest) known
 order by tag
 limit 1000
