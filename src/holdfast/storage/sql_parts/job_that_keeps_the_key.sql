-- Whose a unique key is when another job asks for it, in `on conflict (queue, key) do update set job = …`: `held` is the row
-- that is there, `excluded` the one that asks. It is taken over from a job that has ended or is gone, whose end had to leave
-- its key behind; only from a row that this statement's snapshot shows, since one that is newer may be another
-- transaction's job, which the snapshot does not show either.
case when exists (select from {schema}.unique_key k where k.ctid = held.ctid)
                     and (not exists (select from {schema}.job j where j.id = held.job)
                          or exists (select from {schema}.ledger l where l.job = held.job and l.is_final))
                    then excluded.job else held.job end
