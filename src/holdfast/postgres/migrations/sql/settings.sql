-- Make the transaction the same for every role, whatever its role, database or DSN has set.
-- READ COMMITTED: the look under the lock must see what the previous holder of the lock committed.
-- The search path leaves no schema where a name that is not qualified could end up by accident.
set transaction isolation level read committed, read write;
set local client_encoding = 'UTF8';
set local standard_conforming_strings = on;
set local search_path = pg_catalog, pg_temp;
set local statement_timeout = 0;
set local lock_timeout = '{lock_timeout}';
