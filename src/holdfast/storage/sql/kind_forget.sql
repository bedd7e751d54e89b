-- Forget what was declared of a kind, its secret places included; the next start of a worker that knows it writes it again.
-- Answers its name; no row if nothing was known.
delete from {schema}.kind where name = %(name)s::text returning name
