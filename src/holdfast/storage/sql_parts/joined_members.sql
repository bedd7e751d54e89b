-- A part of the statements that enqueue, for the members of a group: the jobs in {jobs}, of which {job} stands for what was asked, take
-- the %(places)s in the order of their ids. The array is read once, and not for each of them.
, seats as materialized (
  select %(places)s::text::int[] as places
), joined as (
  insert into {schema}.group_member as m (job_group, place, job)
  select %(parent)s::bigint, (select places from seats)[row_number() over (order by id)], {job} from {jobs}
  on conflict (job_group, place) do update set job = excluded.job
)
