-- Delete what a dead flow has done from a step on; put a machine back to that step as it was stored.
-- Locks the dead row, waiting for a transaction that holds it, so that no other resumes, retries or prunes it meanwhile. What has no place on the
-- main path, such as branches that ran at the same time, goes by the time it was written.
-- Answers rewound, alive (it is not dead) or unknown (it has done no such step).
with dead as materialized (
  select job from {schema}.dead where job = %(job)s::bigint for update
), target as materialized (
  select c.job, c.name, c.kind, c.place, c.written_at
    from dead d
   cross join lateral (
     select * from {schema}.checkpoint where job = d.job and name = %(step)s::text offset 0) c
), forgotten as (
  delete from {schema}.checkpoint c
   using target t
   where c.job = t.job
     and (c.name <> t.name or t.kind <> 'state')
     and case when c.place is null or t.place is null then c.written_at >= t.written_at else c.place >= t.place end
), reopened as (
  update {schema}.checkpoint c
     set is_done = false, written_at = coalesce(%(now)s::timestamptz, statement_timestamp())
    from target t
   where c.job = t.job and c.name = t.name and t.kind = 'state'
)
select case when not exists (select from dead) then 'alive'
            when not exists (select from target) then 'unknown'
            else 'rewound'
       end as answer
