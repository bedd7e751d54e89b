-- What this role may not do with our tables and sequences, though a worker has to: the table, and the privileges that are missing.
-- truncate is needed only for the segments of ready. Answers nothing if all is granted. Locks nothing.
select c.relname::text as table, array_agg(p.name order by p.name) as missing
  from pg_class c
 cross join lateral unnest(case when c.relkind = 'S' then array['usage']
                                when c.relname ~ '^ready_[0-3]$' then array['select', 'insert', 'update', 'delete', 'truncate']
                                when c.relkind = 'v' or c.relname = 'migration' then array['select']
                                else array['select', 'insert', 'update', 'delete'] end) as p (name)
 where c.relnamespace = to_regnamespace('{schema}') and c.relkind in ('r', 'p', 'S', 'v')
   and not case when c.relkind = 'S' then has_sequence_privilege(c.oid, p.name) else has_table_privilege(c.oid, p.name) end
 group by c.relname
 order by c.relname
