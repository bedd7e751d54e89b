-- Drop all rows of a drained segment, dead ones included, under the lock that ring_lock took.
truncate {schema}.ready_{segment}
