"""Every chore of the leader: the one worker at a time that does what must be done once for all workers.
Nothing else runs only on the leader. Who leads is decided in `worker/chores/leader.py`; each chore has a loop
of its own, `worker/chores/chore_loop.py`.

To add one, write a file with a class whose `once` does one bounded turn and answers a `Did`, and below it a
`Chore` with its name, its pace and what wakes it. Then add the `Chore` here:
`tests/worker/test_leader_chores.py` fails while it is missing. A turn must be harmless if two leaders take it
at once: leading only saves work.
"""

from typing import Final

from holdfast.flows.flow_waker import WAKE_FLOWS
from holdfast.insights.operation_runner import RUN_OPERATIONS
from holdfast.schedules.plan_pruner import PRUNE_PLANS
from holdfast.schedules.planner import FIRE_PLANS
from holdfast.worker.chores.admitter import ADMIT
from holdfast.worker.chores.chore import Chore
from holdfast.worker.chores.counter_folder import FOLD_COUNTERS
from holdfast.worker.chores.enqueue_counter import COUNT_ENQUEUED
from holdfast.worker.chores.failure_folder import FOLD_FAILURES
from holdfast.worker.chores.gate_sweeper import SWEEP_GATE
from holdfast.worker.chores.group_closer import CLOSE_GROUPS
from holdfast.worker.chores.job_expirer import EXPIRE
from holdfast.worker.chores.job_promoter import PROMOTE
from holdfast.worker.chores.job_pruner import PRUNE
from holdfast.worker.chores.job_rescuer import RESCUE
from holdfast.worker.chores.job_unparker import UNPARK
from holdfast.worker.chores.ring_turner import TURN_RING
from holdfast.worker.chores.timeout_enforcer import ENFORCE_TIMEOUTS
from holdfast.worker.chores.unserved_reporter import REPORT_UNSERVED
from holdfast.worker.chores.untold_reporter import REPORT_UNTOLD

LEADER_CHORES: Final[tuple[Chore, ...]] = (
    PROMOTE,  # scheduled jobs that are due can be claimed
    ADMIT,  # jobs at a gate can be claimed when their limits have permits free
    SWEEP_GATE,  # keys that somebody waits for are looked at again; jobs that no worker can take hold nothing
    EXPIRE,  # waiting jobs end when their deadline has passed
    RESCUE,  # the runs of workers whose lease ran out are taken away
    ENFORCE_TIMEOUTS,  # so are runs that outlived their timeout although their worker lives
    TURN_RING,  # new jobs go to another segment, drained segments are truncated
    UNPARK,  # jobs of kinds that no worker knew are claimed by a worker that does
    FOLD_COUNTERS,  # tallies of settles become counters
    COUNT_ENQUEUED,  # new jobs are counted by minute, queue and kind
    FOLD_FAILURES,  # failed runs are grouped and counted
    PRUNE,  # ended jobs and counters that were kept for long enough are deleted
    REPORT_UNTOLD,  # a warning of hooks that no worker calls
    REPORT_UNSERVED,  # a warning of jobs and schedules that no worker serves
    FIRE_PLANS,  # schedules fire
    PRUNE_PLANS,  # plans that were kept for long enough are deleted
    RUN_OPERATIONS,  # actions on many jobs go on that their process has left
    WAKE_FLOWS,  # flows go on whose event, child or time has come, and ends of members are counted
    CLOSE_GROUPS,  # what follows a group is enqueued, and members of cancelled groups are cancelled
)
