"""How long everything is kept, who may change it and who deletes it. Every default is here and nowhere else.

A job that ended, with its ledger, result, checkpoints and kept log lines
    `Retention`, by how it ended. `App(retention=)` or `WorkerOptions(retention=)` changes it, and a job's own
    `keep=` goes before both. The statement that ends the job writes the moment into `ledger.keep_until`, so
    that a change counts for jobs that end later. Deleted by `worker/chores/job_pruner.py`; a job with
    `keep="0s"` by the statement that ends it.
A plan of a schedule
    `HISTORY`, or the schedule's `history=`. In `plan.keep_until`. Deleted by `schedules/plan_pruner.py`.
An event that no flow took
    `EVENTS`, or `emit(keep=)`. In `event.keep_until`. Deleted by `flows/flow_waker.py`.
A group that ended, with the places of its members
    `GROUPS`. In `job_group.keep_until`. Deleted by `worker/chores/group_closer.py`. Members that have ended
    are kept as jobs are, but not deleted before their group has ended.
A notice for hooks that no worker took
    `NOTICES` after the leader has warned of it, which is `UNTOLD_AFTER` it was written. Both are done by
    `worker/chores/untold_reporter.py`.
Counters, and counts of what began: for each minute, and for each hour
    `MINUTES` and `HOURS`. Deleted by `worker/chores/job_pruner.py`.
Counts of failures, and groups of failures that are not seen any more
    `FAILURE_COUNTS` and `FAILURE_GROUPS`. Deleted by `worker/chores/failure_folder.py`.
What operators did, and operations that have ended
    `AUDIT`. Deleted by `worker/chores/job_pruner.py`.
A worker that was lost and holds no lease, with what operators asked of it
    `LOST_WORKERS`. Deleted by `worker/chores/job_rescuer.py`. A worker that ends by itself deletes both.

All that delete are chores of the leader, and delete in batches.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

HISTORY: Final = timedelta(days=30)
EVENTS: Final = timedelta(days=30)
GROUPS: Final = timedelta(hours=72)
NOTICES: Final = timedelta(hours=72)
UNTOLD_AFTER: Final = timedelta(minutes=10)
"""How long a notice may lie before the leader warns that no worker has taken it."""
MINUTES: Final = timedelta(days=7)
HOURS: Final = timedelta(days=90)
FAILURE_COUNTS: Final = timedelta(days=8)
FAILURE_GROUPS: Final = timedelta(days=30)
AUDIT: Final = timedelta(days=365)
LOST_WORKERS: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long jobs are kept after their end, unless they say so themselves: `dead` are those that failed for
    good, `other` those that were cancelled or expired.
    """

    succeeded: timedelta = timedelta(hours=24)
    dead: timedelta = timedelta(days=30)
    other: timedelta = timedelta(hours=72)
