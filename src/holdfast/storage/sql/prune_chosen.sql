-- Delete jobs as prune does, for an operator who narrows it to jobs that ended in some of the %(states)s, or more than %(older_than)s ago:
-- up to %(limit)s of those among the next %(page)s from %(since)s on (NULL: from the beginning). So it reads a bounded number of
-- rows, however few of them are asked for, beside those that were to be kept up to the same moment as the last of them.
-- Skips locked rows; sql_parts/pruned.sql says which others stay. Leans on ledger_keep_until.
-- Answers how many, from where to go on, and whether there may be more from there on.
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
), ended as materialized (
  select job, keep_until
    from {schema}.ledger
   where is_final and keep_until <= (select last from page)
     and (%(states)s::text[] is null or outcome::text = any(%(states)s::text[]))
     and (%(older_than)s::interval is null or finished_at < (select now from clock) - %(older_than)s::interval)
     and keep_until >= coalesce(%(since)s::timestamptz, '-infinity')
   order by keep_until
   limit %(limit)s::int
     for update skip locked
), {part pruned}, found as materialized (
  select (select count(*) from old)::int as moved, exists (select from held) as is_any_held, max(keep_until) as last,
         count(*) >= %(limit)s::int as is_full
    from ended
)
select f.moved,
       -- Again from the last moment if there may be others of it, unless all that it has found there must stay.
       case when f.is_full and (f.moved > 0 or f.is_any_held) then f.last when f.is_full then f.last + interval '1 microsecond'
            else p.last + interval '1 microsecond' end as seen,
       f.is_full or p.is_full as is_more
  from found f, page p
