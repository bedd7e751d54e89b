-- The rest of a kind's policy, so that a job enqueued by the kind's name is run as one that its code enqueues.
-- min_code: 1

-- NULL: written by a release that did not store it yet.
alter table {schema}.kind add column on_lost text, add column tags text[];
