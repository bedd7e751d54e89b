-- What one flow has done and waits for, in the order in which it was written, with the states of its children; up to %(limit)s.
-- Locks nothing; leans on the primary keys of checkpoint and wait.
select c.name, c.kind, c.place, c.is_done, c.failures, c.value::text, c.error::text, c.written_at, case when not c.is_done then c.until end as until,
       w.key, c.child, j.kind as child_kind, j.state as child_state
  from (select * from {schema}.checkpoint where job = %(job)s::bigint
         order by written_at, place, child, name limit %(limit)s::int) c
  left join lateral (select key from {schema}.wait where job = c.job and name = c.name offset 0) w on true
  left join lateral (select kind, state from {schema}.jobs where id = c.child offset 0) j on c.child is not null
 order by c.written_at, c.place, c.child, c.name
