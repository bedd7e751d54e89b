-- A script was written for one state of the database: in any other it must change nothing.
do $holdfast$
declare
  reached int := (select coalesce(max(version), 0) from {schema}.migration);
begin
  if reached <> {version} then
    raise exception 'schema "{schema_name}" is at %, this script starts at {version}: nothing was changed', reached
      using hint = 'Write it again with: holdfast migrate --sql --dsn ...';
  end if;
end
$holdfast$;
