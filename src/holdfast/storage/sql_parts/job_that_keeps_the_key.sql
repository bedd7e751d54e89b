-- Whose a unique key is when another job asks for it, and until when, in `on conflict (queue, key) do update set (job, until) = …`:
-- `held` is the row that is there, `excluded` the one that asks. It is taken over if {is_given_up}, and from a job
-- that has ended or is gone, and whose end had to leave its key behind, or kept it for a time that is over by now; only from
-- a row that this statement's snapshot shows, since one that is newer may be another transaction's job, which the snapshot
-- does not show either.
(select case when k.is_free then excluded.job else held.job end, case when k.is_free then excluded.until else held.until end
                            from (select {is_given_up}
                                      or exists (select from {schema}.unique_key k where k.ctid = held.ctid)
                                         and (not exists (select from {schema}.job j where j.id = held.job)
                                              or exists (select from {schema}.ledger l where l.job = held.job and l.is_final))
                                         and (held.until is null or held.until <= (select now from clock)) as is_free
                                  offset 0) k)
