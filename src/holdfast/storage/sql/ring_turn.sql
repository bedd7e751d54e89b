-- Let new rows go to another segment. Refused (no row) when the ring has changed since version was read.
update {schema}.ring
   set current = %(segment)s::smallint, version = least(version, 9223372036854775806) + 1,
       turned_at = coalesce(%(now)s::timestamptz, statement_timestamp())
 where version = %(version)s::bigint and closed is distinct from %(segment)s::smallint
returning version
