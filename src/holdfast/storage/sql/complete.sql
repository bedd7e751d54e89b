-- End runs that succeeded: what settle does, for the usual batch, in which nothing else can come of any run. A
-- success wins over a cancel request and over a passed deadline. Fence, order of locks, answers and the keys that
-- are left behind are settle's; one row answers for all runs that were settled. Most ends concern no other job, as their
-- leases say: only of the others the job is looked up.
-- The parts about limits are for batches with a limited job: its permits are handed on or given back, and the answer says which
-- queues have got jobs by that, and whether the leader has to look at a gate.
{part completed}
select jobs, runs, answer, outcome{part handed_on_answer}
  from (select array_agg(job) as jobs, array_agg(run) as runs, 'settled' as answer, 'succeeded' as outcome
          from ended
        having count(*) > 0
        union all
        {part unsettled job=array[a.job] run=array[a.run]}) answers
