-- Whether a row g of the gate may be admitted: a live worker serves its queue and kind, and the queue is not paused. Workers that are
-- quiet or stopping serve nothing. `me` (queues, kinds) is a worker that is asked first, `paused` the queues that are.
(g.queue = any((select queues from me)::text[]) and g.kind = any((select kinds from me)::text[])
         or exists (select from {schema}.worker w
                     where w.lost_at is null and coalesce(w.activity, 'working') = 'working'
                       and g.queue = any(w.queues) and g.kind = any(w.kinds)))
        and g.queue <> all((select queues from paused)::text[])
