"""Which workers a new job wakes, and the NOTIFY for them. It is a hint: a worker that misses it polls."""

import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from typing import Final

from holdfast.domain.job import NewJob
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.channels import Channel

LEADER: Final = ""
"""Stands for the leader among the names of queues, of which none is empty: something is due later."""

GATE: Final = "\x01"
"""Stands for the leader too: jobs wait at a gate. No queue has this character in its name."""

PAUSE: Final = 0.002
"""Seconds between any two NOTIFYs of one process."""

# Nothing that concerns a job goes over these connections, so their commits need not wait for the disk.
HINTS: Final = PoolOptions(pool_min_conns=1, pool_max_conns=1, synchronous_commit=False)
# A blocking caller has committed its jobs: it waits no longer than this for a hint.
BLOCKING_HINTS: Final = replace(HINTS, pool_timeout=timedelta(seconds=2))


def woken_by(jobs: Iterable[NewJob]) -> set[str]:
    """The queues whose workers new jobs wake, LEADER if any job is due later, GATE if any has limits. A
    debounced job that has been put off for as long as it can be is due now.
    """
    names = set()
    for job in jobs:
        is_later = job.delay or job.run_at or job.debounce
        if is_later:
            names.add(LEADER)
        if not is_later or job.max_wait:
            names.add(GATE if job.limits else job.policy.queue)
    return names


def wake(schema: Schema, names: set[str]) -> Statement[object]:
    """One NOTIFY for each queue, for LEADER and for GATE."""
    return Statement(
        "wake",
        f"/* {schema.name}.wake */ select pg_notify(channel, payload)"  # noqa: S608  # a checked name
        " from unnest(%(channels)s::text[], %(payloads)s::text[]) as w (channel, payload)",
        {
            "channels": [_channel(name).in_schema(schema) for name in sorted(names)],
            "payloads": ["" if name == GATE else name for name in sorted(names)],
        },
        lambda nothing: nothing,
    )


_LEADERS: Final = {LEADER: Channel.DUE, GATE: Channel.GATE}


def _channel(name: str) -> Channel:
    return _LEADERS.get(name, Channel.READY)


class NotifyPace:
    """When this process may send its next NOTIFY: PAUSE seconds after the last one."""

    def __init__(self) -> None:
        self._sent_at = float("-inf")

    def sent(self) -> None:
        self._sent_at = time.monotonic()

    @property
    def wait(self) -> float:
        """Seconds until the next one may be sent; zero or less if it may be sent now."""
        return self._sent_at + PAUSE - time.monotonic()
