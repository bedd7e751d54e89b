-- Stop claims from a queue, until it is resumed or until a time; running jobs continue. Pausing again changes note and until.
-- No row: that time has passed, and nothing is changed.
insert into {schema}.queue as q (name, paused_at, paused_until, pause_note)
select %(queue)s::text, now, coalesce(%(until)s::timestamptz, now + %(length)s::interval), %(note)s::text
  from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) clock
 where %(until)s::timestamptz is null or %(until)s::timestamptz > now
on conflict (name) do update
   set paused_at = coalesce(q.paused_at, excluded.paused_at),
       paused_until = excluded.paused_until,
       pause_note = excluded.pause_note
returning name, paused_at, paused_until, pause_note
