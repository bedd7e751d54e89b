-- Remember what an operator did. Answers the number of the entry.
insert into {schema}.audit (at, action, by, target, reason, counts)
values (coalesce(%(now)s::timestamptz, statement_timestamp()), %(action)s::text, %(by)s::text, %(target)s::text, %(reason)s::text,
        %(counts)s::text::jsonb)
returning id
