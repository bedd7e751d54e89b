-- Look at the members of a group from %(first)s up to, but not including, %(last)s: how many have ended in which way, how many are gone,
-- deleted by hand with all that was known of them, and where the first is that has not ended.
-- Locks nothing; leans on the primary keys of group_member, ledger and job. Always one row.
with seen as materialized (
  select m.place, f.outcome, f.outcome is null and exists (select from {schema}.job j where j.id = m.job offset 0) as is_awaited
    from {schema}.group_member m
    left join lateral (select outcome from {schema}.ledger where job = m.job and is_final::int = 1 limit 1) f on true
   where m.job_group = %(job_group)s::bigint and m.place >= %(first)s::int and m.place < %(last)s::int
)
select count(*) filter (where outcome = 'succeeded')::int as succeeded, count(*) filter (where outcome = 'failed')::int as failed,
       count(*) filter (where outcome = 'cancelled')::int as cancelled, count(*) filter (where outcome = 'expired')::int as expired,
       (%(last)s::int - %(first)s::int - count(*) filter (where outcome is not null or is_awaited))::int as gone,
       min(place) filter (where is_awaited) as awaited
  from seen
