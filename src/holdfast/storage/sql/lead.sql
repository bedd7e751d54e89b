-- Become or stay the leader for %(lease)s: taken when no worker leads, the last lease has run out, or it is ours.
-- Answers the term, which grows with every change of leader, and whether any worker's lease has run out, so that
-- the leader need not ask for that apart; no row means that another worker leads.
-- Locks the one leader row.
insert into {schema}.leader as l (worker, term, expires_at)
select %(worker)s::bigint, 1, coalesce(%(now)s::timestamptz, statement_timestamp()) + %(lease)s::interval
on conflict (is_only) do update
   set worker = excluded.worker,
       term = least(l.term, 9223372036854775806) + (l.worker <> excluded.worker)::int,
       expires_at = excluded.expires_at
 where l.worker = excluded.worker or l.expires_at <= coalesce(%(now)s::timestamptz, statement_timestamp())
    -- No leader asks for so much: a row damaged by hand, or a clock that was set back.
    or l.expires_at > coalesce(%(now)s::timestamptz, statement_timestamp()) + 2 * %(lease)s::interval + interval '1 minute'
returning l.term,
          exists (select from {schema}.worker w
                   where w.lost_at is null
                     and w.expires_at < coalesce(%(now)s::timestamptz, statement_timestamp())) as is_any_silent
