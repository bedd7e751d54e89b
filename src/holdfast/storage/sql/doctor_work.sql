-- How the leader's work goes: whether a worker leads, how late each of its chores is, NULL where nothing is due, and which workers were asked to
-- be quiet. Each part reads one end of an index or a small table. Locks nothing.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
select exists (select from {schema}.leader l where l.expires_at > clock.now) as is_led,
       (select clock.now - s.run_at from {schema}.scheduled s where s.run_at <= clock.now order by s.run_at limit 1) as promote_lag,
       (select clock.now - l.keep_until from {schema}.ledger l
         where l.is_final and l.keep_until <= clock.now order by l.keep_until limit 1) as prune_lag,
       (select clock.now - t.minute from {schema}.tally t order by t.id limit 1) as fold_lag,
       (select clock.now - c.next_at
          from {schema}.schedule_scope c join {schema}.schedule s on s.name = c.schedule
         where c.next_at <= clock.now and c.gone_at is null and (s.paused_at is null or s.paused_until <= clock.now)
         order by c.next_at limit 1) as plan_lag,
       array(select w.id from {schema}.worker w
              where w.lost_at is null and w.expires_at > clock.now and w.activity = 'quiet' order by w.id limit 20) as quiet
  from clock
