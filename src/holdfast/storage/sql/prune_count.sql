-- How many jobs prune_chosen would delete now, by how they ended: of the next %(page)s that ended and were kept as long as they asked, from
-- %(since)s on (NULL: from the beginning), and those that were to be kept up to the same moment as the last of them; up to %(cap)s in all.
-- Steps along ledger_keep_until. Locks nothing. One row without an outcome says from where to go on, and has a number if
-- there may be more from there on.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), page as materialized (
  select max(keep_until) as last, count(*) >= %(page)s::int as is_full
    from (select keep_until
            from {schema}.ledger
           where is_final and keep_until <= (select now from clock)
             and keep_until >= coalesce(%(since)s::timestamptz, '-infinity')
           order by keep_until
           limit %(page)s::int) p
), capped as materialized (
  select outcome
    from {schema}.ledger
   where is_final and keep_until <= (select last from page)
     and (%(states)s::text[] is null or outcome::text = any(%(states)s::text[]))
     and (%(older_than)s::interval is null or finished_at < (select now from clock) - %(older_than)s::interval)
     and keep_until >= coalesce(%(since)s::timestamptz, '-infinity')
   order by keep_until
   limit %(cap)s::int
)
select outcome::text, count(*)::int as jobs, null::timestamptz as seen from capped group by outcome
union all
select null, is_full::int, last + interval '1 microsecond' from page
