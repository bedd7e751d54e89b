"""The metrics and probes of `holdfast worker`: served by the one process, or reported to the supervisor."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta

from holdfast.app import App, connections_of
from holdfast.cli.service_notifier import ServiceNotifier
from holdfast.metrics.database_figures import DatabaseFigures, read_figures
from holdfast.metrics.event_counter import EventCounter
from holdfast.metrics.figures import Figures
from holdfast.metrics.http_server import Answers, serving
from holdfast.metrics.one_process import OneProcess
from holdfast.metrics.process_report import ProcessReporter
from holdfast.metrics.report_line import ReportSender
from holdfast.telemetry.events import Reader
from holdfast.telemetry.log_lines import say
from holdfast.worker.worker import Worker

_log = logging.getLogger("holdfast.metrics")


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    host: str
    port: int

    def as_options(self) -> list[str]:
        return ["--metrics-host", self.host, "--metrics-port", str(self.port)]


@contextmanager
def told_at(address: MetricsAddress, answers: Answers) -> Iterator[None]:
    """Serve, and say where."""
    with serving(address.host, address.port, answers) as port:
        host = f"[{address.host}]" if ":" in address.host else address.host
        say(_log, logging.INFO, f"metrics at http://{host}:{port}/metrics", probes="/healthz,/readyz")
        yield


@dataclass(slots=True)
class WorkerMetrics:
    """What one process counts for its own port or for its supervisor; nothing if neither asks."""

    readers: tuple[Reader, ...] = ()
    _reporter: ProcessReporter | None = None
    _tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    def watch(self, worker: Worker) -> None:
        """On the event loop of this worker."""
        if self._reporter is not None:
            self._tasks.append(asyncio.create_task(self._reporter.watch(worker.vitals)))

    async def unwatch(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@contextmanager
def worker_metrics(
    app: App, address: MetricsAddress | None, bound: timedelta, notifier: ServiceNotifier
) -> Iterator[WorkerMetrics]:
    """Around the whole worker, so that its last report has everything. `bound`: for how long the event loop
    or the lease keeper may be stuck.
    """
    line = ReportSender.line_from_environment()
    if address is None and line is None and not notifier.is_watched:
        yield WorkerMetrics()
        return
    counter = EventCounter()
    reporter = ProcessReporter(counter, bound)
    database = DatabaseFigures(_questions(app))
    with ExitStack() as stack:
        stack.callback(database.close)
        if address is not None:
            stack.enter_context(told_at(address, OneProcess(reporter, database)))
        notifier.watch(lambda: not reporter.health().wrong)
        if line is not None:
            sender = ReportSender(line, reporter.report, database.latest)
            sender.start()
            stack.callback(sender.finish)
        yield WorkerMetrics((counter,), reporter)


def _questions(app: App) -> Callable[[], Figures]:
    return lambda: connections_of(app).look_sync(read_figures(app.schema), None)
