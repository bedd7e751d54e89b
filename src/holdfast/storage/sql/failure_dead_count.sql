-- How many dead letters a group of failures has, counted up to %(cap)s. Leans on dead_fingerprint. Always one row.
select count(*)::int
  from (select from {schema}.dead where fingerprint = %(fingerprint)s::text limit %(cap)s::int) d
