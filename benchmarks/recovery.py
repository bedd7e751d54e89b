"""The leader's process is killed: how long until the next job that is due runs, promoted by another leader.

Two workers with a worker's defaults. Each round kills the one that leads, and starts another in its place.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from statistics import median

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.session import Session
from holdfast import App

_LATER = timedelta(milliseconds=200)
_PATIENCE = 60.0

_LEADS = """
select w.pid from {schema}.leader as l join {schema}.worker as w on w.id = l.worker where l.expires_at > now()
"""
_WORKERS = "select pid from {schema}.worker where expires_at > now()"
_BEGAN = (
    "select started_at - %(killed_at)s::timestamptz from {schema}.ledger where job = %(job)s and is_final"
)


class _Pair:
    """Two workers, in processes of their own."""

    def __init__(self, dsn: str, session: Session, stack: ExitStack) -> None:
        self._dsn = dsn
        self._session = session
        self._stack = stack
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def fill(self) -> None:
        while len(self._processes) < 2:
            arguments = [sys.executable, "-m", "benchmarks.recovery_worker", self._dsn]
            process = self._stack.enter_context(subprocess.Popen(arguments, stderr=subprocess.DEVNULL))
            self._stack.callback(process.kill)
            self._processes[process.pid] = process
        _until(
            lambda: self._processes.keys() <= {row[0] for row in self._session.ask(_WORKERS)}, "two workers"
        )
        _until(lambda: self._leading() in self._processes, "one of them leads")

    def kill_leader(self) -> None:
        process = self._processes.pop(self._leading())
        process.kill()
        process.wait(10)

    def _leading(self) -> int:
        rows = self._session.ask(_LEADS)
        return int(rows[0][0]) if rows else 0


def recovery(bench: Bench) -> Iterator[Figure]:
    with bench.database() as dsn, Session.on(dsn) as session, ExitStack() as stack:
        pair = _Pair(dsn, session, stack)
        app = App(dsn)

        @app.job
        async def note() -> None: ...

        stack.callback(lambda: asyncio.run(app.close()))
        took: list[float] = []
        for _ in range(bench.scale.kills):
            pair.fill()
            # A leader renews its lease every seven seconds: kills come at any moment of that.
            time.sleep(len(took) * 0.7 % 7)
            handle = note.using(delay=_LATER).enqueue_sync()
            [(killed_at,)] = session.ask("select clock_timestamp()")
            pair.kill_leader()
            params = {"killed_at": killed_at, "job": handle.id}
            _until(lambda: session.ask(_BEGAN, params), "it has run")  # noqa: B023  # called at once
            took.append(session.ask(_BEGAN, params)[0][0].total_seconds())
            bench.say(f"recovery: {took[-1]:.2f} s")
    yield Figure(
        "recovery",
        "from the death of the leader's process to the next due job",
        median(took),
        Target("at_most", 15, "s"),
        f"median of {len(took)}; shortest {min(took):.1f} s, longest {max(took):.1f} s",
    )


def _until(is_so: Callable[[], object], what: str) -> None:
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > _PATIENCE:
            raise TimeoutError(f"not within {_PATIENCE:g} s: {what}")
        time.sleep(0.02)
