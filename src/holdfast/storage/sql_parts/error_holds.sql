-- Whether the type and the message of {error} hold every text that is asked for, whatever the case. Patterns of ASCII are compared without the
-- database's rules for letters, which takes a third of the time.
(%(error_patterns)s::text[] is null
 or case when %(is_error_ascii)s::boolean
         then lower(concat_ws(': ', {error} ->> 'type', {error} ->> 'message') collate "C") like all (array(
                select lower(pattern collate "C") from unnest(%(error_patterns)s::text[]) as asked (pattern)))
         else lower(concat_ws(': ', {error} ->> 'type', {error} ->> 'message')) like all (array(
                select lower(pattern) from unnest(%(error_patterns)s::text[]) as asked (pattern))) end)
