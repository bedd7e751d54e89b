-- Whether the member of the group `g` that the leader awaits first has not ended: it has a job, and the ledger no end of it.
exists (
  select from {schema}.group_member a
   where a.job_group = g.id and a.place = g.awaited_place and a.place < g.members
     and not exists (select from {schema}.ledger f where f.job = a.job and f.is_final::int = 1 offset 0)
     and exists (select from {schema}.job j where j.id = a.job offset 0)
  offset 0)
