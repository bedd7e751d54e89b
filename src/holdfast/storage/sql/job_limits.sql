-- What a job had to pass when it was enqueued: the names of its limits, its keys and costs. No row: it is gone, or has no limits.
select limits, limit_keys, coalesce(limit_costs, array_fill(1, array[cardinality(limits)])) as limit_costs
  from {schema}.job
 where id = %(job)s::bigint and limits is not null
