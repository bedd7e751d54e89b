-- Delete a notice whose hooks were called. Answers its run; nothing if it is gone. Leans on the primary key of notice.
delete from {schema}.notice
 where kind = %(kind)s::text and job = %(job)s::bigint and run = %(run)s::bigint
returning run
