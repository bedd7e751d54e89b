-- What to answer of the one run that a statement was asked to end, if it is not in `ended`: as in unsettled.sql.
when exists (select from {schema}.ledger where job = %(job)s::bigint and run = %(run)s::bigint
                 and coalesce(error ->> 'code', '') not in ('lease_lost', 'stale_timeout'))
then 'already'
when not exists (select from gone)
 and exists (select from {schema}.lease
              where worker = %(worker)s::bigint and job = %(job)s::bigint and run = %(run)s::bigint)
then 'moving'
else 'lost'
