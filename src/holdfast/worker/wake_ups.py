"""What a worker does without notifications: it looks as often as it polls, and tells itself what it did."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from holdfast.worker.service import Alarm


@dataclass(frozen=True, slots=True)
class WakeUps:
    """`are_heard` asks the listener, each time: notifications may stop and come back while a worker runs."""

    poll: float
    are_heard: Callable[[], bool]

    async def sleep(self, alarm: Alarm, seconds: float) -> None:
        """Until the alarm rings or time is up; while no wake-up can come, for at most one poll.

        Asked again at every poll: a listener that is lost in the middle of a long sleep ends it.
        """
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            if await alarm.sleep(min(left, self.poll)) or not self.are_heard():
                return


ALWAYS_HEARD = WakeUps(3600.0, lambda: True)
"""For loops that nothing wakes: they look by their own time."""
