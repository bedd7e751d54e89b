-- Remember up to which place the members of a group were cancelled. Two leaders may: the farther one counts.
-- Locks the row; leans on its primary key. Answers the id.
update {schema}.job_group set cancelled_place = greatest(cancelled_place, %(place)s::int)
 where id = %(job_group)s::bigint
returning id
