-- Knock for keys at whose gate somebody waits although a permit may be free: what no path of ours leaves behind, but for workers that
-- have come, queues that were resumed, and rows changed by hand. Looks at up to %(limit)s keys behind %(after_name)s and
-- %(after_key)s, stepping from one to the next along ready_gated_lane, however many jobs each has.
-- Skips keys that hold all they may, that have their turn to come, for which a knock is there, or whose jobs no live worker serves.
-- Locks nothing. Answers how many knocks it wrote, how many keys it looked at, and the last of them.
with recursive clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), waiting (limit_name, limit_key) as (
  (select limit_name, limit_key from {schema}.ready_gated
    where limit_name is not null and (limit_name, limit_key) > (%(after_name)s::text, %(after_key)s::text)
    order by limit_name, limit_key
    limit 1)
  union all
  select n.limit_name, n.limit_key
    from waiting w
   cross join lateral (
     select limit_name, limit_key from {schema}.ready_gated
      where limit_name is not null and (limit_name, limit_key) > (w.limit_name, w.limit_key)
      order by limit_name, limit_key
      limit 1) n
), page as materialized (
  select limit_name, limit_key from waiting limit %(limit)s::int
), me as materialized (
  select queues, kinds from {schema}.worker
   where lost_at is null and coalesce(activity, 'working') = 'working'
   order by id desc
   limit 1
), {part paused_queues}, missed as (
  insert into {schema}.knock (limit_name, key, given)
  select p.limit_name, p.limit_key, 0
    from page p
    left join lateral (
     select case when r.removed_at is null
                 then coalesce((select k.per_key from {schema}.limit_key k where k.limit_name = p.limit_name and k.key = p.limit_key),
                               r.per_key, r.total) end as cap
       from {schema}.limit_rule r where r.name = p.limit_name offset 0) r on true
    left join lateral (
     select held, pass from {schema}.lane
      where limit_name = p.limit_name and key = p.limit_key
      order by version desc
      limit 1) l on true
   where l.pass is null and (l.held is null or r.cap is null or l.held < r.cap)
     and exists (
           select from {schema}.ready_gated g
            where g.limit_name = p.limit_name and g.limit_key = p.limit_key and {part served_at_gate} offset 0)
  returning limit_name, pg_notify('{schema_name}.gate', '')
)
select (select count(*) from missed)::int as knocked, (select count(*) from page)::int as looked, last.limit_name, last.limit_key
  from (select) as always
  left join (select limit_name, limit_key from page order by limit_name desc, limit_key desc limit 1) last on true
