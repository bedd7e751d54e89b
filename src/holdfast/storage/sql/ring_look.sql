-- The ring as it stands: which segment is current, which is closed, how long since the last turn, and the size
-- of each segment in bytes, dead rows included: it is those that the ring gets rid of; and whether it has any
-- row that is not dead, for a segment that is closed hides its jobs from every claim. Looked for from place to
-- place: with very many dead rows that takes a tenth of the time that their index takes.
select ring.version, ring.current,
       case when ring.closed_until > clock.now then ring.closed end as closed,
       case when ring.turned_at between timestamptz '1900-01-01 00:00:00Z' and clock.now
            then clock.now - ring.turned_at else interval '1 day' end as age,
       array[pg_relation_size('{schema}.ready_0'), pg_relation_size('{schema}.ready_1'),
             pg_relation_size('{schema}.ready_2'), pg_relation_size('{schema}.ready_3')] as sizes,
       array[not exists (select from {schema}.ready_0 where ctid >= '(0,0)'),
             not exists (select from {schema}.ready_1 where ctid >= '(0,0)'),
             not exists (select from {schema}.ready_2 where ctid >= '(0,0)'),
             not exists (select from {schema}.ready_3 where ctid >= '(0,0)')] as drained
  from (select * from {schema}.ring order by version desc limit 1) ring,
       (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) clock
