-- The schema and the table of applied migrations, when they are missing.
-- Asks the catalogue first: `create schema if not exists` needs a right on the database even when it exists,
-- and the owner of a schema that an administrator created may have no such right.
do $holdfast$
begin
  if not exists (select from pg_namespace where nspname = '{schema_name}') then
    create schema {schema};
  end if;
  if not exists (select from pg_class join pg_namespace on pg_namespace.oid = relnamespace
                  where nspname = '{schema_name}' and relname = 'migration') then
    create table {schema}.migration (
      version    int         not null primary key,
      name       text        not null,
      checksum   text        not null,
      min_code   int         not null check (min_code between 1 and version),
      applied_at timestamptz not null,
      applied_by text        not null default session_user
    );
    comment on table {schema}.migration is
      'Which migrations were applied. Code that does not know min_code is refused: the highest counts.';
  end if;
end
$holdfast$;
