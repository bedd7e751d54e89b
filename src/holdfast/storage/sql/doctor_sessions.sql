-- Transactions of this database that are older than %(least)s, oldest first: each keeps vacuum from removing what died since, and may
-- hold locks on our tables, which are named. Prepared transactions have no process; they are known by their names.
-- Locks nothing. Sessions of other roles are seen only by members of pg_read_all_stats.
select a.pid, null::text as prepared, a.usename::text as role, a.application_name as program, coalesce(a.state, '') as state,
       clock.now - a.xact_start as lasting,
       array(select distinct c.relname::text
               from pg_locks l join pg_class c on c.oid = l.relation
              where l.pid = a.pid and l.granted and c.relnamespace = to_regnamespace('{schema}') and c.relkind in ('r', 'p')
              order by 1) as tables
  from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) clock, pg_stat_activity a
 where a.datname = current_database() and a.pid <> pg_backend_pid() and a.xact_start < clock.now - %(least)s::interval
   and (a.backend_xmin is not null or a.backend_xid is not null or a.state like 'idle in transaction%%')
   and a.backend_type = 'client backend'
union all
select null, p.gid, p.owner::text, '', 'prepared', clock.now - p.prepared, '{}'
  from (select coalesce(%(now)s::timestamptz, statement_timestamp()) as now) clock, pg_prepared_xacts p
 where p.database = current_database() and p.prepared < clock.now - %(least)s::interval
 order by lasting desc
 limit 20
