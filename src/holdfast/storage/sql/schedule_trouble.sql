-- Write down what is wrong with a declaration or with the source of its scopes, or with NULL that all is well again.
-- Nothing is written if that is known. Answers the schedule if it was.
update {schema}.schedule
   set error = %(error)s::text
 where name = %(name)s::text and error is distinct from %(error)s::text
returning name as schedule
