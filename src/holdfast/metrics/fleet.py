"""What one port answers for all processes of a supervisor: the sum of what each has reported, also of those
that have died since.
"""

import socket
import threading
from datetime import timedelta
from time import monotonic
from typing import Final

from holdfast.domain.duration import compact
from holdfast.metrics import probes
from holdfast.metrics.figures import Figures
from holdfast.metrics.probes import ProcessHealth, Verdict
from holdfast.metrics.report_line import ReportReceiver

_PATIENCE: Final = 1.0
_PATIENCE_FOR_DATABASE: Final = 2.5
_SHORTEST_SILENCE: Final = 10.0


class Fleet:
    """`bound`: for how long a process may be stuck. A scrape asks every process, and one of them also asks
    the database: another one, if the one before did not answer.
    """

    def __init__(self, bound: timedelta) -> None:
        self._bound = max(bound.total_seconds(), _SHORTEST_SILENCE)
        self._lock = threading.Lock()
        self._processes: list[ReportReceiver] = []
        self._ended = Figures()
        self._database: Figures | None = None

    def join(self, line: socket.socket, pid: int) -> ReportReceiver:
        """This process has started, and reports on this line."""
        receiver = ReportReceiver(line, pid)
        with self._lock:
            self._processes.append(receiver)
        return receiver

    def leave(self, receiver: ReportReceiver) -> None:
        """The process has ended: what it counted stays."""
        receiver.hear()
        with self._lock:
            self._processes.remove(receiver)
            if receiver.latest is not None:
                self._ended.include(receiver.latest.figures, is_over=True)

    def figures(self) -> Figures:
        self._ask()
        whole = Figures()
        with self._lock:
            whole.include(self._ended)
            for process in self._processes:
                if process.latest is not None:
                    whole.include(process.latest.figures)
            if self._database is not None:
                whole.include(self._database)
        return whole

    def health(self) -> Verdict:
        return probes.health(self._healths())

    def readiness(self) -> Verdict:
        return probes.readiness(self._healths())

    def _ask(self) -> None:
        with self._lock:
            processes = list(self._processes)
        asker: ReportReceiver | None = None
        now = monotonic()
        questions = []
        for process in processes:
            is_asker = asker is None and process.latest is not None
            question = process.ask(with_database=is_asker)
            if question is not None:
                asker = process if is_asker else asker
                questions.append((process, question))
        for process, question in questions:
            process.wait_for(question, now + (_PATIENCE_FOR_DATABASE if process is asker else _PATIENCE))
        with self._lock:
            self._database = None if asker is None or asker.latest is None else asker.latest.database
            if asker is not None and self._database is None and asker in self._processes:
                # It is stuck, or a report of its own came in between: the next one is asked the next time.
                self._processes.remove(asker)
                self._processes.append(asker)

    def _healths(self) -> list[ProcessHealth]:
        with self._lock:
            return [_health_of(each, self._bound) for each in self._processes]


def _health_of(process: ReportReceiver, bound: float) -> ProcessHealth:
    silent = monotonic() - process.heard_at
    if process.latest is None:
        return ProcessHealth(process.pid, unready="starting")
    if silent > bound:
        length = compact(timedelta(seconds=round(silent)))
        return ProcessHealth(process.latest.health.pid, f"silent for {length}", "silent")
    return process.latest.health
