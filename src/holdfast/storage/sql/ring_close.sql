-- Take a segment out of the claims' list for %(length)s, in order to truncate it. Never the current one, and
-- only when no other is closed. Refused (no row) when the ring has changed since version was read.
update {schema}.ring
   set closed = %(segment)s::smallint, version = least(version, 9223372036854775806) + 1,
       closed_until = coalesce(%(now)s::timestamptz, statement_timestamp()) + %(length)s::interval
 where version = %(version)s::bigint and current <> %(segment)s::smallint
   and (closed is null or closed = %(segment)s::smallint
        or closed_until <= coalesce(%(now)s::timestamptz, statement_timestamp()))
returning version
