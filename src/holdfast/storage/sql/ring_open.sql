-- Give a segment back to the claims' list.
update {schema}.ring
   set closed = null, closed_until = null, version = version + 1
 where closed = %(segment)s::smallint
returning version
