-- What can be asked of a server without any table of ours: its settings as a session of this role begins with them, its clock, how many connections
-- are left to clients, how full the queue of notifications is, and whether other sessions can be seen. Locks nothing.
select current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding,
       pg_is_in_recovery() as is_standby, coalesce(%(now)s::timestamptz, statement_timestamp()) as now,
       greatest(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
         - (select sum(numbackends)::int from pg_stat_database), 0) as connections_left,
       pg_notification_queue_usage() as notifications,
       (select count(*)::int from pg_stat_activity
         where datname = current_database() and query = '<insufficient privilege>') as unseen,
       array(select name || '=' || reset_val || coalesce(' ' || unit, '') from pg_settings
              where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts', 'max_wal_size',
                             'default_transaction_read_only', 'default_transaction_isolation', 'statement_timeout',
                             'transaction_timeout', 'idle_in_transaction_session_timeout')
              order by name) as settings
