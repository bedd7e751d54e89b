-- Delete up to %(limit)s jobs that ended and were kept as long as they asked, with all that is known of them.
-- Looks from %(since)s on (NULL: from the beginning), as promote does. Leans on ledger_keep_until.
-- Skips locked rows; sql_parts/pruned.sql says which others stay.
-- Answers how many, the latest time seen (the next since), and how many are held by groups.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), ended as materialized (
  select job, keep_until
    from {schema}.ledger
   where is_final and keep_until <= (select now from clock)
     and keep_until >= coalesce(%(since)s::timestamptz, '-infinity')
   order by keep_until
   limit %(limit)s::int
     for update skip locked
), {part pruned}
select count(*)::int as moved, max(keep_until) as seen, (select count(distinct job) from held)::int as held from old
