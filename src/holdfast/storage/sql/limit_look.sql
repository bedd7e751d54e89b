-- How limit %(limit)s stands: asked under its lock, before anything of it is admitted. Always one row.
-- is_known: it was declared. may_be_direct: as far as its settings go. is_stale: what its state was made from has changed since.
-- may_pass_on: its lanes fit what it allows, and none of them is closed, so that permits may be handed on directly.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
select r.name is not null as is_known, coalesce(r.is_direct, false) as is_direct, s.limit_name is not null as has_state,
       s.limit_name is not null and s.rule_changed_at is distinct from r.changed_at as is_stale,
       coalesce(r.removed_at is null and (r.rate is not null or r.key_rate is not null), false) as has_rate,
       coalesce(r.may_be_direct and r.removed_at is null, false) as may_be_direct,
       coalesce(r.may_be_direct, false) and r.removed_at is null
         and (r.closed_at is null or r.closed_until <= clock.now)
         and s.limit_name is not null
         and not exists (
               select from {schema}.lane l
               left join {schema}.limit_key k on k.limit_name = l.limit_name and k.key = l.key
               cross join lateral (
                 select coalesce(k.per_key, case when l.key = '' then coalesce(r.total, r.per_key) else r.per_key end) as allowed) a
                where l.limit_name = r.name
                  and (l.held > a.allowed or l.pending is not null or l.open_until is not null)
                limit 1)
         and not exists (
               select from {schema}.limit_key k where k.limit_name = r.name and k.closed_at is not null
                  and (k.closed_until is null or k.closed_until > clock.now)) as may_pass_on
  from clock, (select %(limit)s::text as name) a
  left join {schema}.limit_rule r using (name)
  left join lateral (
    select limit_name, rule_changed_at from {schema}.limit_state where limit_name = a.name order by version desc limit 1) s on true
