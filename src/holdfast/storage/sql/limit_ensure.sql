-- Write down a limit that jobs name and no code has declared yet: everything passes it, and is counted, so that the numbers are right
-- when it is declared. Answers its name if it is new.
insert into {schema}.limit_rule (name, declared_at, changed_at, removed_at, declared)
select %(limit)s::text, clock.now, clock.now, clock.now, '{}'
  from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) clock
on conflict (name) do nothing
returning name
