"""Every chore of the leader: the one worker at a time that does what must be done once for all workers."""

from typing import Final

from holdfast.flows.flow_waker import WAKE_FLOWS
from holdfast.schedules.plan_pruner import PRUNE_PLANS
from holdfast.schedules.planner import FIRE_PLANS
from holdfast.worker.chores.chore import Chore
from holdfast.worker.chores.counter_folder import FOLD_COUNTERS
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
    PROMOTE,
    EXPIRE,
    RESCUE,
    ENFORCE_TIMEOUTS,
    TURN_RING,
    UNPARK,
    FOLD_COUNTERS,
    PRUNE,
    REPORT_UNTOLD,
    REPORT_UNSERVED,
    FIRE_PLANS,
    PRUNE_PLANS,
    WAKE_FLOWS,
)
