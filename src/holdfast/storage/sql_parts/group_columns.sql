-- What is shown of a group `g`, beside a `clock`.
g.id, g.name, g.tags,
         case when g.cancelled_at is not null then case when g.ended_at is null then 'cancelling' else 'cancelled' end
              when g.closed_at is null then 'running'
              when g.ended_at is null then 'finishing'
              else 'ended' end as state,
         g.members, g.succeeded, g.failed, g.cancelled, g.expired, g.gone, g.guests,
         g.created_at, g.closed_at, g.ended_at, g.cancelled_at, g.cancel_reason, g.then_job, g.has_failed,
         g.on_success -> 'policy' ->> 'kind' as then_kind, g.on_failure -> 'policy' ->> 'kind' as on_failure_kind,
         clock.now
