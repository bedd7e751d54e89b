-- Put the jobs in {of} into ready or at the gate, as sql_parts/rows_for_ready.sql says, with a knock for each key that somebody came to.
-- A job that is in ready already, by hand, stays there once.
placed as (
  {part rows_for_ready of={of}}
  on conflict do nothing
  returning queue, priority, job, segment, limit_name, limit_key
), {part came of=placed}
