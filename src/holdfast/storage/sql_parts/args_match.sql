-- Whether the arguments {args} of a job of the kind {kind} are as asked for: every value stands at its path. Only for kinds of which it is known what
-- is secret. Text that jsonb cannot hold matches nothing. The first path is compared in place: one is what people ask for.
(%(paths)s::text[] is null
 or {kind} in (select name from {schema}.kind)
    and case when position('\u0000' in {args}::text) > 0 then false
             when cardinality(%(paths)s::text[]) = 1
             then {args}::jsonb #> (select (%(paths)s::text[])[1]::text[]) = (select (%(values)s::text[])[1]::jsonb)
             else not exists (
               select from unnest(%(paths)s::text[], %(values)s::text[]) as wanted (path, value)
                where ({args}::jsonb #> wanted.path::text[]) is distinct from wanted.value::jsonb) end)
