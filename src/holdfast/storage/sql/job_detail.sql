-- What a job's own row tells beyond a list: all of its arguments and its policy, what it has saved, and how many jobs it has
-- called. No row: there is no such job (any more). Leans on primary keys. Locks nothing.
select j.args::text, j.unique_key, j.backoff::text, j.timeout, j.keep, j.on_lost, j.origin::text,
       v.progress::text, v.saved_at,
       exists (select from {schema}.checkpoint c where c.job = j.id) as has_steps
  from {schema}.job j
  left join {schema}.saved v on v.job = j.id
 where j.id = %(job)s::bigint
