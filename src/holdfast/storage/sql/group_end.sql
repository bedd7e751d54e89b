-- End groups that are closed and whose last job has ended or is gone, although nothing told of it: it is somebody else's, which holds its unique
-- key, or was deleted. Locks the rows; leans on the primary keys of job_group, ledger and job. Answers the ids.
update {schema}.job_group g
   set ended_at = clock.now, keep_until = clock.now + %(keep)s::interval
  from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) clock
 where g.id = any(%(job_groups)s::bigint[]) and g.closed_at is not null and g.ended_at is null
   and (exists (select from {schema}.ledger f where f.job = g.then_job and f.is_final::int = 1 offset 0)
        or not exists (select from {schema}.job j where j.id = g.then_job offset 0))
returning g.id
