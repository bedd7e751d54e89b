-- The newest job that there is; none while there are no jobs. Leans on the primary key of job.
select id from {schema}.job order by id desc limit 1
