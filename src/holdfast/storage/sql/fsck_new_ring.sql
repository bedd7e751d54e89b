-- Write the ring's row, with a version that no worker has seen. Answers that version, or nothing if the row is there.
insert into {schema}.ring (version)
select extract(epoch from coalesce(%(now)s::timestamptz, statement_timestamp()))::bigint
on conflict (is_only) do nothing
returning version
