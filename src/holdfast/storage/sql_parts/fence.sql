-- The fence: which leases are those of `asked`, by worker, job and run; for the `where` of a delete from lease.
-- Found by arrays, not by a join: statistics of lease are always wrong, and there is no other way to plan this.
worker = any((select workers from asked)::bigint[])
     and job = any((select jobs from asked)::bigint[])
     and run = (select runs from asked)[width_bucket(run, (select runs from asked))]
     and job = (select jobs from asked)[width_bucket(run, (select runs from asked))]
     and worker = (select workers from asked)[width_bucket(run, (select runs from asked))]
