-- A page of the members of a group, from the place %(first)s on, before %(last)s: %(limit)s of them, with how they ended and with what. A member without a
-- state has not ended; one without a kind is gone, with all that was known of it.
-- Locks nothing; leans on the primary keys of group_member, ledger and job.
select m.place, m.job, j.kind, f.outcome::text as state, f.finished_at, f.result::text, f.error::text, f.flag,
       j.parent is distinct from m.job_group as is_guest
  from (select job_group, place, job from {schema}.group_member
         where job_group = %(job_group)s::bigint and place >= %(first)s::int and place < %(last)s::int
         order by place
         limit %(limit)s::int) m
  left join lateral (
    select outcome, finished_at, result, error, flag from {schema}.ledger where job = m.job and is_final::int = 1 limit 1) f on true
  left join lateral (select kind, parent from {schema}.job where id = m.job offset 0) j on true
 order by m.place
