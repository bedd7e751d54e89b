-- The same of a run whose job has no limits.
, null::text[] as limits, null::text[] as limit_keys, null::smallint as priority, 0 as kept, 0 as verdict
