-- Up to which job new ones have been counted, and the last id that was given to any. Always one row. The id may belong to a
-- transaction that is still open: enqueue_open, asked afterwards, names all of those.
select m.job as mark, coalesce(pg_sequence_last_value('{schema}.job_id_seq'), 0) as top
  from {schema}.enqueue_mark m
