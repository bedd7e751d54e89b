-- The ring's version alone, for a leader that has changed the ring since its last look: a look costs more, as it reads the
-- size of every segment.
select version from {schema}.ring order by version desc limit 1
