-- How many of {limits}, counted from the first, a job keeps while it waits for its next run: up to the last with hold = 'job'. An
-- earlier one is kept along with it, or two jobs could each wait for what the other keeps.
case when {limits} is null then 0
              else coalesce((select max(u.n)::int
                               from unnest({limits}) with ordinality as u (name, n)
                              cross join lateral (select from {schema}.limit_rule where name = u.name and hold = 'job' offset 0) r), 0)
         end
