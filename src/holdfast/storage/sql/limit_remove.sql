-- Take limit %(limit)s away: everything that waits for it passes, and what is still enqueued for it does too, until code declares it again.
-- Not while a live worker runs a kind that has this limit, unless %(force)s. Its permits go on being counted, so that the numbers are right then. The leader looks at it again. Answers the limit, or nothing if there is
-- none, or if it was removed before.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), changed as (
  update {schema}.limit_rule
     set is_direct = false, may_be_direct = false, removed_at = clock.now, overrides = null,
         closed_at = null, closed_until = null, closed_reason = null,
         changed_at = greatest(clock.now, changed_at + interval '1 microsecond')
    from clock
   where name = %(limit)s::text and removed_at is null
     and (%(force)s::boolean
          or not exists (
               select from {schema}.worker w
                where w.lost_at is null and w.expires_at > clock.now
                  and w.kinds && array(select k.name from {schema}.kind k
                                        where k.limits @> jsonb_build_array(jsonb_build_object('limit', %(limit)s::text)))))
  returning name
), unset as (
  delete from {schema}.limit_key where limit_name = (select name from changed)
), knocked as (
  insert into {schema}.knock (limit_name, key, given) select name, '', 0 from changed
), told as materialized (
  select pg_notify('{schema_name}.gate', '')
)
select name from changed, (select count(*) from told) as everyone
