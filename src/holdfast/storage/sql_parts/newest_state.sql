-- The state of limit %(limit)s over all its keys, as `state`: its newest version. No row while the limit is direct.
state as materialized (
  select ctid as place, next_pass, open_until, spent_until, held, failures, is_probing, pending, turn, turn_before, starts, start_costs,
         rule_changed_at
    from {schema}.limit_state
   where limit_name = %(limit)s::text
   order by version desc
   limit 1
)
