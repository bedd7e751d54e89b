-- One migration of one schema at a time, in one database, until the transaction ends.
-- Taken before the first `create if not exists`, since two of those at once can both decide to create.
select pg_advisory_xact_lock(hashtextextended('holdfast migrate {schema_name}', 0));
