-- Transactions that have drawn an id for a job and are still open: whoever draws one holds a lock on the sequence until the
-- transaction ends, and its rows can be seen when the lock is gone. A transaction that only reads, however old, is not
-- among them. One that is prepared (for two-phase commit) gets another name when the server restarts, which begins with -1.
-- Answers an array. Asked after enqueue_top: then each id up to that one belongs to a transaction that is named here, or has ended.
select coalesce(array_agg(distinct virtualtransaction), '{}') as open
  from pg_locks
 where locktype = 'relation' and granted and pid is distinct from pg_backend_pid()
   and relation = '{schema}.job_id_seq'::regclass
   and database = (select oid from pg_database where datname = current_database())
