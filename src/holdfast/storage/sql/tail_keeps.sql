-- For which lengths of time kinds keep their jobs, where they say so themselves. There are as many rows as kinds. Locks nothing.
select distinct keep from {schema}.kind where keep is not null
