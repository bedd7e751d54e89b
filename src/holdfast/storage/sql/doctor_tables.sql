-- Our tables with more than %(least)s rows that are dead and not vacuumed yet, most first. Locks nothing.
select relname::text as table, n_dead_tup as dead, n_live_tup as live,
       greatest(last_vacuum, last_autovacuum) as vacuumed_at
  from pg_stat_all_tables
 where relid in (select oid from pg_class where relnamespace = to_regnamespace('{schema}'))
   and n_dead_tup > %(least)s::bigint and n_dead_tup > n_live_tup / 2
 order by n_dead_tup desc
 limit 10
