-- Members of a group that have not ended: the first %(limit)s among the 10,000 from the first that the leader awaits on, with where they are.
-- Locks nothing; leans on the primary keys of group_member, ledger, job, scheduled, waiting, lease and ready. No row: none was found.
select m.place, m.job, j.kind,
       case when exists (select from {schema}.worker k, lateral (select from {schema}.lease where worker = k.id and job = m.job offset 0) l)
            then 'running'
            when s.run_at is not null then 'scheduled'
            when exists (select from {schema}.waiting where job = m.job) then 'waiting'
            else coalesce((select case when r.segment = 8 then 'gated' else 'ready' end
                             from unnest('{0,1,2,3,4,5,6,7,8,9}'::smallint[]) as level (priority)
                            cross join lateral (
                              select segment from {schema}.ready
                               where queue = j.queue and priority = level.priority and job = m.job offset 0) r
                            limit 1), 'lost')
       end as state, s.run_at
  from (select m.place, m.job
          from {schema}.job_group g
         cross join lateral (
           select place, job from {schema}.group_member
            where job_group = g.id and place >= g.awaited_place and place < g.members
            order by place limit 10000) m
         where g.id = %(job_group)s::bigint
           and not exists (select from {schema}.ledger f where f.job = m.job and f.is_final::int = 1 offset 0)
           and exists (select from {schema}.job j where j.id = m.job offset 0)
         -- They come in the order of their places: to sort them would be to look at all of them.
         limit %(limit)s::int) m
 cross join lateral (select kind, queue from {schema}.job where id = m.job offset 0) j
  left join lateral (select run_at from {schema}.scheduled where job = m.job offset 0) s on true
 order by m.place
