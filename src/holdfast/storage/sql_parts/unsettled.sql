-- What to answer of runs in `asked` that are not in `ended`: already (an earlier sending has settled it: the ledger has
-- it, and not from a rescue), moving (another transaction ended it while we waited for its lease: ask in a new statement)
-- or lost. {job} and {run} say in which form; nothing is looked up when all of them are in `ended`.
select {job}, {run},
       case when exists (select from {schema}.ledger l where l.job = a.job and l.run = a.run
                             and coalesce(l.error ->> 'code', '') not in ('lease_lost', 'stale_timeout'))
            then 'already'
            when a.run not in (select run from gone)
             and exists (select from {schema}.lease l where l.worker = a.worker and l.job = a.job and l.run = a.run)
            then 'moving'
            else 'lost' end,
       null
  from asked, unnest(asked.workers, asked.jobs, asked.runs) as a (worker, job, run)
 where (select count(*) from ended) < cardinality(asked.runs)
   and a.run not in (select run from ended)
