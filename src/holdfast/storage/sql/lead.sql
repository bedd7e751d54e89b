-- Become or stay the leader for %(lease)s: taken when nobody leads, the last lease has run out, or it is ours.
-- Answers the term, which grows with every change of leader, and whether any worker's lease has run out, so that
-- the leader need not ask for that apart; no row means that somebody else leads.
-- Locks the one leader row.
insert into {schema}.leader as l (worker, term, expires_at)
select %(worker)s::bigint, 1, coalesce(%(now)s::timestamptz, statement_timestamp()) + %(lease)s::interval
on conflict (is_only) do update
   set worker = excluded.worker,
       term = l.term + (l.worker <> excluded.worker)::int,
       expires_at = excluded.expires_at
 where l.worker = excluded.worker or l.expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
returning l.term,
          exists (select from {schema}.worker w
                   where w.lost_at is null
                     and w.expires_at < coalesce(%(now)s::timestamptz, statement_timestamp())) as is_any_silent
