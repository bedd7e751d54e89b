-- Of how many of its limits, counted from the first, a job that waited in {place} (segment, limit_name, holds) held permits: in the
-- ring of all, at the gate of those that it had passed, parked of none, elsewhere of those that it kept.
case when {place}.segment < 8 then 2
              when {place}.segment = 8 and {place}.limit_name is distinct from {limits}[1] then 1
              else coalesce(cardinality({place}.holds), 0) end
