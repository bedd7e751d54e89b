-- The ring's version, for whoever has changed it himself since he looked: a look counts the size of every segment.
select version from {schema}.ring order by version desc limit 1
