-- Every migration that the database has, oldest first. Locks nothing.
select version, name, checksum, min_code from {schema}.migration order by version
