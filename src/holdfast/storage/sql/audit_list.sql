-- What operators did, newest first, up to %(limit)s of the latest %(window)s entries before %(before)s. An action is found by all
-- of its words, or by the first: `move` finds `move to bulk`. Always answers a row: without an entry, with how many were looked at
-- and the last among them, when none matches.
-- Leans on the primary key. Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), looked as materialized (
  select id, at, action, by, target, reason, counts
    from {schema}.audit
   where id < coalesce(%(before)s::bigint, 9223372036854775807)
   order by id desc
   limit %(window)s::int
), seen as materialized (
  select count(*)::int as looked, min(id) as last from looked
)
select m.id, m.at, m.action, m.by, m.target, m.reason, m.counts, seen.looked, seen.last, clock.now
  from clock
 cross join seen
  left join lateral (
   select id, at, action, by, target, reason, counts::text
     from looked
    where (%(by)s::text is null or by = %(by)s::text)
      and (%(action)s::text is null or %(action)s::text in (action, split_part(action, ' ', 1)))
    order by id desc
    limit %(limit)s::int
 ) m on true
 order by m.id desc
