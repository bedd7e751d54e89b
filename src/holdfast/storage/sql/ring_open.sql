-- Give a segment back to the claims' list.
update {schema}.ring
   set closed = null, closed_until = null, version = least(version, 9223372036854775806) + 1
 where closed = %(segment)s::smallint
returning version
