"""The probes and the metrics of workers while Postgres is away for longer than their lease, and after it."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from cli.scrapes import asked, port_of, scraped, total, wait_for
from cli.worker_processes import WorkerProcess, enqueue, reach, worker_process
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged
from support.server_faults import start_again, stop_now

# Longer than the lease of these workers, and than a lease keeper may wait for one answer.
OUTAGE_SECONDS = 15


class Liveness:
    """Asks `/healthz` all the time, as whoever restarts a process that does not answer with 200."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_over = threading.Event()
        self.answers: list[tuple[int, str]] = []

    def __call__(self) -> None:
        while not self._is_over.wait(0.2):
            self.answers.append(asked(self._port, "/healthz"))

    @contextmanager
    def asking(self) -> Iterator[None]:
        thread = threading.Thread(target=self)
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()


@pytest.mark.machine  # waits through an outage
@pytest.mark.parametrize("processes", [1, 2])
def test_an_outage_restarts_nothing_and_jobs_go_on_after_it(
    tmp_path: Path, folder: Path, processes: int
) -> None:
    with EmbeddedServer.start(tmp_path / "server", tcp=True) as server:
        with psycopg.connect(server.tcp_dsn) as connection:
            migrate(connection, Schema(), packaged())
        options = ("-A", "shop:app", "--metrics-port", "0", "--lease", "3s", "--processes", str(processes))
        with worker_process(folder, server.tcp_dsn, *options) as worker:
            worker.wait_for_log("worker started", times=processes)
            port = port_of(worker)
            wait_for(port, "/readyz", 200)
            with psycopg.connect(server.tcp_dsn, autocommit=True) as connection:
                held = enqueue(connection, "wait_for", name=str(folder / "open"))
                reach(worker, connection, held, "running")
            liveness = Liveness(port)
            with liveness.asking():
                stop_now(server)
                wait_for(port, "/readyz", 503, "not registered in the database")
                time.sleep(OUTAGE_SECONDS)
                assert asked(port, "/readyz")[0] == 503
                assert total(scraped(port), "holdfast_database_up") == 0
                assert total(scraped(port), "holdfast_processes") == processes
                start_again(server)
                wait_for(port, "/readyz", 200)
                (folder / "open").touch()
                finished(worker, server.tcp_dsn, held)
            assert {status for status, _ in liveness.answers} == {200}, liveness.answers
            assert len(liveness.answers) > OUTAGE_SECONDS
            wait_for(port, "/healthz", 200)
            assert total(scraped(port), "holdfast_database_up") == 1
            worker.signal()
            assert worker.ended() == 0


def finished(worker: WorkerProcess, dsn: str, held: int) -> None:
    """The job that ran when the outage began, and one that comes after it."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        reach(worker, connection, enqueue(connection, "send", queue="mail", number=1), "succeeded")
        reach(worker, connection, held, "succeeded")
