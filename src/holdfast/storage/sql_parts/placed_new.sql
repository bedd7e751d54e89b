-- As sql_parts/placed.sql, for jobs that are new, and so in no other place.
placed as (
  {part rows_for_ready of={of}}
  returning queue, priority, job, segment, limit_name, limit_key
), {part came of=placed}
