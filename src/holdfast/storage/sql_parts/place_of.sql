-- Why a verb for jobs that wait for their turn has left {job} alone: running, waiting (a flow), final, unknown, or moving: the row is
-- locked by another transaction, or was between two places, so that a new statement should look again.
case when exists (select from {schema}.ledger l where l.job = {job} and l.is_final) then 'final'
            when not exists (select from {schema}.job j where j.id = {job}) then 'unknown'
            when exists (select from {schema}.waiting w where w.job = {job}) then 'waiting'
            when exists (select from {schema}.worker w
                          cross join lateral (select from {schema}.lease where worker = w.id and job = {job} offset 0) l) then 'running'
            else 'moving' end
