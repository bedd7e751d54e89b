-- Each branch of a flow knows its own path.
-- min_code: 1

-- The branch of a flow.gather that a checkpoint belongs to: '/2.0' is the first branch of the second gather, '' a gather of
-- children on the main path. NULL: alone on the main path (then it has a place), in a task of its own, or written by older code.
alter table {schema}.checkpoint add column branch text;
