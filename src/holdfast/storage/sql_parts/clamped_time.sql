-- {time}, within the years that can be reckoned with; NULL stays NULL.
case when {time} is not null
     then least(greatest({time}, timestamptz '1900-01-01 00:00:00Z'), timestamptz '9000-01-01 00:00:00Z') end
