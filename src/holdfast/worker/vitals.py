"""What a worker is doing at this moment, for probes and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.domain.steering import Activity


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """Read from another thread than the event loop's, so that a blocked loop can be told of: each field is
    true of a moment, and not all of the same one.

    `worker` is None while it has no identity in the database. `slots` has, of each queue, how many are used
    and how many there are. `settled_batches` counts batches by their size. `keeper_came_round_at` is when the
    lease keeper's thread last came round, on the monotonic clock; None before it runs.
    """

    worker: int | None
    activity: Activity
    slots: Mapping[str, tuple[int, int]]
    is_leader: bool
    is_listening: bool
    is_database_lost: bool
    unsettled: int
    settled_batches: Mapping[int, int]
    keeper_came_round_at: float | None
