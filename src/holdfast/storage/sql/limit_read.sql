-- What is stored of limits %(names)s, by name: what code has declared, and what an operator has set. Locked, so that of two
-- who change the same limit the second sees what the first has written. One that is missing is not known yet.
select name, declared::text as declared, overrides::text as overrides, removed_at is not null as is_removed, closed_at is not null as is_closed
  from {schema}.limit_rule
 where name = any(%(names)s::text[])
 order by name
   for no key update
