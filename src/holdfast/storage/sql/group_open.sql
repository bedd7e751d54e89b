-- Write a group without members, which the statements after it in the same transaction add. Answers its id, which no job has.
-- Locks nothing of others'.
insert into {schema}.job_group (id, created_at, name, tags, on_success, on_failure)
values (nextval('{schema}.job_id_seq'), coalesce(%(now)s::timestamptz, statement_timestamp()), %(name)s::text,
        %(tags)s::text::text[], %(on_success)s::text::jsonb, %(on_failure)s::text::jsonb)
returning id
