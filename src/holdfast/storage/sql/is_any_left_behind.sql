-- Whether a worker that was marked lost still holds a lease, locked or not: what lost_leases takes away. Leans on the primary
-- key of lease. Locks nothing. Always one row.
select exists (select from {schema}.worker w
                where w.lost_at is not null
                  and exists (select from {schema}.lease l where l.worker = w.id offset 0)) as is_any
