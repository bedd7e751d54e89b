-- Take up to %(limit)s wake-ups, oldest first, and lock the keys that they are about, in ascending order, until the end of
-- the transaction: flow_wake, the next statement in it, sees every flow that began to wait before.
-- Looks from %(since)s on, as promote does. Skips what another leader has taken. No row: nothing is to be woken.
-- Answers with each whether any of them is of a member of a group, which group_count counts.
with picked as materialized (
  select id, job, key
    from {schema}.wakeup
   where id >= %(since)s::bigint
   order by id
   limit %(limit)s::int
     for update skip locked
), bucket as materialized (
  select distinct hashtext('{schema_name}:' || coalesce('event:' || key, 'job:' || job)) & 1023 as number
    from picked
   order by 1
), locked as materialized (
  select number, pg_advisory_xact_lock(1213156420, number)::text from bucket
)
select id, exists (select from {schema}.job_group where id = any(array(select job from picked)) and ended_at is null) as is_counted
  from picked, (select count(*) from locked) as everyone
