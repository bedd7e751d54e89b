-- Who could run a job of %(kind)s in %(queue)s: whether a live worker serves that queue, whether one knows that kind, whether one
-- does both, whether the queue is paused, whether only one that is quiet or stopping, and so serves nothing, does both; and what live workers serve and know, to show what may have been meant.
-- Always one row. Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
), alive as materialized (
  select w.queues, w.kinds, coalesce(w.activity, 'working') = 'working' as is_serving
    from {schema}.worker w, clock where w.lost_at is null and w.expires_at > clock.now
)
select exists (select from alive) as is_any_worker_alive,
       exists (select from alive where %(queue)s::text = any(queues)) as is_queue_served,
       exists (select from alive where %(kind)s::text = any(kinds)) as is_kind_known,
       exists (select from alive where is_serving and %(queue)s::text = any(queues) and %(kind)s::text = any(kinds)) as is_served,
       exists (select from {schema}.queue q, clock
                where q.name = %(queue)s::text and q.paused_at is not null
                  and (q.paused_until is null or q.paused_until > clock.now)) as is_paused,
       exists (select from alive where not is_serving and %(queue)s::text = any(queues) and %(kind)s::text = any(kinds)) as is_quiet,
       array(select distinct q from alive, unnest(queues) as q order by q) as queues,
       array(select distinct k from alive, unnest(kinds) as k order by k) as kinds
