"""What the command line asks of a worker."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from holdfast.app import App
from holdfast.domain.duration import compact
from holdfast.worker.lease_keeper import Beats
from holdfast.worker.options import WorkerOptions
from holdfast.worker.queue_choice import slots_for

_BEATS_IN_A_LEASE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerArguments:
    """Without `queues`, the worker serves those of the app's own jobs. A queue without a number has the slots
    that are set for it.
    """

    queues: Mapping[str, int | None] | None
    slots: Mapping[str, int] | None = None
    grace: timedelta
    lease: timedelta
    once: bool
    children: int | None = None

    def options(self, app: App) -> WorkerOptions:
        slots = {**app.slots, **(self.slots or {})}
        asked = {name: number for name, number in (self.queues or {}).items() if number is not None}
        standard = WorkerOptions()
        return WorkerOptions(
            queues=slots_for(self.queues or app.own_queues, slots | asked) or standard.queues,
            grace=self.grace,
            beats=Beats(self.lease, self.lease / _BEATS_IN_A_LEASE),
            leader_lease=min(standard.leader_lease, self.lease),
            children=self.children,
        )

    def as_options(self) -> list[str]:
        """For the command of a process. Without the DSN, which may hold a password and goes by the
        environment: every user of the machine can read a command.
        """
        options: list[str] = []
        if self.queues:
            asked = self.queues.items()
            options += ["-q", ",".join(name if slots is None else f"{name}={slots}" for name, slots in asked)]
        if self.slots:
            options += ["--slots", ",".join(f"{name}={slots}" for name, slots in self.slots.items())]
        options += ["--grace", compact(self.grace), "--lease", compact(self.lease)]
        if self.children is not None:
            options += ["--children", str(self.children)]
        return [*options, "--once"] if self.once else options
