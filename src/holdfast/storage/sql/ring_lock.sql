-- Take a closed segment for ourselves, or fail at once: a waiting lock would stall every claim behind it.
lock table {schema}.ready_{segment} in access exclusive mode nowait
