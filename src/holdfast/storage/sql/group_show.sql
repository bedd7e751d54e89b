-- One group. Locks nothing; leans on its primary key. No row: there is no such group.
with clock as materialized (
  select coalesce(%(now)s::timestamptz, statement_timestamp()) as now
)
select {part group_columns} from clock, {schema}.job_group g where g.id = %(job_group)s::bigint
