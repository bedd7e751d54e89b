-- Notices that no worker has taken for %(patience)s, up to %(limit)s at once: marked, so that each is answered once, as
-- counts by kind and outcome with the oldest job of each. Deletes up to as many that were marked more than %(keep)s ago.
-- Skips locked rows; leans on notice_said_at.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), late as materialized (
  select n.ctid as place
    from {schema}.notice n
   where n.said_at is null and n.at <= (select now from clock) - %(patience)s::interval
     and not exists (select from {schema}.worker w where w.id = n.teller and w.lost_at is null)
   order by n.said_at, n.at
   limit %(limit)s::int
     for update of n skip locked
), old as materialized (
  select n.ctid as place
    from {schema}.notice n
   where n.said_at <= (select now from clock) - %(keep)s::interval
   order by n.said_at, n.at
   limit %(limit)s::int
     for update of n skip locked
), dropped as (
  delete from {schema}.notice n using old where n.ctid = old.place
), marked as (
  update {schema}.notice n
     set said_at = clock.now
    from late, clock
   where n.ctid = late.place
  returning n.kind, n.outcome, n.job
)
select kind, outcome::text, count(*)::int as number, min(job) as job
  from marked
 group by kind, outcome
 order by kind, outcome
