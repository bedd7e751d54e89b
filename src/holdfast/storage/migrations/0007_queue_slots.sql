-- How many jobs of each queue a worker runs at once.
-- min_code: 1

-- One number for each of its queues, in their order; NULL for a worker that is older than this column. It tells why a job waits
-- although the worker has free slots: they are those of other queues.
alter table {schema}.worker add column queue_slots integer[];
