"""Runs of handlers without a database: what a worker would hold, and a watch on processes."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from holdfast.codec.signature import Signature
from holdfast.domain.job import Policy
from holdfast.storage.runs import ClaimRow
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.completion import Completion
from holdfast.worker.context import Context
from holdfast.worker.job_kind import Kind
from holdfast.worker.processes import Processes
from support.waiting import until

_runs = count(1000)


@dataclass
class Run:
    """A run of a function, with what it says on the way."""

    claimed: ClaimedRun
    context: Context
    said: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(
        cls, function: Callable[..., Any], *, memory_limit: int | None = None, state: str | None = None
    ) -> "Run":
        kind = Kind(
            Policy("kind"),
            function,
            Signature.of(function, context=Context),
            style="process",
            memory_limit=memory_limit,
        )
        number, now = next(_runs), datetime.now(UTC)
        hour = now + timedelta(hours=1)
        row = ClaimRow(
            ring_version=1,
            closed=None,
            job=number - 900,
            run=number,
            attempt=2,
            kind="kind",
            args="{}",
            priority=3,
            max_attempts=20,
            backoff=None,
            started_at=now,
            lasting=3600.0,
            created_at=now,
            deadline_at=hour,
            tags=["night"],
            state=state,
        )
        claimed = ClaimedRun(7, "default", row, kind)
        said: list[dict[str, Any]] = []
        context = Context(
            claimed, save_progress=lambda _, text: said.append(json.loads(text)), complete=_complete
        )
        return cls(claimed, context, said)

    async def on(self, processes: Processes, **arguments: Any) -> Any:
        return await processes.call(self.claimed, self.context, arguments)

    def begin(self, processes: Processes, **arguments: Any) -> asyncio.Task[Any]:
        task = asyncio.create_task(self.on(processes, **arguments))
        self.claimed.task = task
        return task

    def tell_to_stop(self, reason: Stop) -> None:
        self.claimed.tell_to_stop(reason)


async def run(processes: Processes, function: Callable[..., Any], **arguments: Any) -> Any:
    return await Run.of(function).on(processes, **arguments)


def _complete(*_: object) -> Completion:
    raise NotImplementedError


async def numbers_in(place: Path) -> list[int]:
    """The process ids that a handler has written, when it has."""
    await until(place.exists)
    return list(map(int, place.read_text("utf-8").split()))  # noqa: ASYNC240  # a few bytes


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def children() -> list[int]:
    """The children of this process, zombies included. A thread that ends meanwhile has none."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, (task / "children").read_text("utf-8").split())
    return found


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
