-- Whether overdue_leases would find anything, locked or not: an idle look of the leader is this statement alone, without a
-- transaction around it. Reads all leases, as that one does. Locks nothing. Always one row.
select exists (select from {schema}.lease
                where timeout_at < coalesce(%(now)s::timestamptz, statement_timestamp()) - %(grace)s::interval
                   or not exists (select from {schema}.worker w where w.id = lease.worker)) as is_any
