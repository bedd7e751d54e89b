"""`holdfast worker --metrics-port`: what Prometheus sees of a fleet of real processes, and that it is so."""

import json
import os
import signal
from pathlib import Path

import psycopg
import pytest

from cli.scrapes import asked, port_of, scraped, total
from cli.worker_processes import APP, Start, WorkerProcess, enqueue
from holdfast.cli import main
from holdfast.metrics.catalogue import METRICS
from support.waiting import block_until

pytestmark = pytest.mark.machine  # Fleets of processes.

FAILING = """
@app.job(queue="mail", retry=Retry(max_attempts=3, backoff="10ms"))
async def fail(number: int) -> None:
    raise ValueError(number)
"""

SUMS = """
select kind, queue, outcome::text, count(*)::int from holdfast.ledger where run is not null group by 1, 2, 3
"""


@pytest.fixture(autouse=True)
def failing(folder: Path) -> None:
    (folder / "shop.py").write_text(APP + FAILING, "utf-8")


def drained(worker: WorkerProcess, conn: psycopg.Connection) -> None:
    left = """
        select (select count(*) from holdfast.ready) + (select count(*) from holdfast.lease)
             + (select count(*) from holdfast.scheduled)
    """
    worker.wait_until(lambda: conn.execute(left).fetchone() == (0,), "no job left")


def fill(conn: psycopg.Connection, number: int = 100) -> None:
    for n in range(number):
        enqueue(conn, "send", "mail", number=n)
    for n in range(number // 10):
        enqueue(conn, "chain", left=3)
        conn.execute(
            "select holdfast.enqueue('fail', %s::jsonb, queue => 'mail', max_attempts => %s)",
            [json.dumps({"number": n}), 2 if n == 0 else 1],
        )


@pytest.mark.parametrize("processes", [1, 3])
def test_the_sums_of_all_processes_are_those_of_the_ledger(
    start: Start, conn: psycopg.Connection, processes: int
) -> None:
    worker = start("--metrics-port", "0", "--processes", str(processes))
    port = port_of(worker)
    worker.wait_for_log("worker started", times=processes)
    fill(conn)
    drained(worker, conn)
    ledger = {tuple(row[:3]): row[3] for row in conn.execute(SUMS).fetchall()}

    def counted() -> dict[tuple[str, ...], float]:
        samples = scraped(port)["holdfast_runs"].samples
        return {(s.labels["kind"], s.labels["queue"], s.labels["outcome"]): s.value for s in samples}

    block_until(lambda: counted() == ledger, lambda: f"{counted()} is {ledger}")
    metrics = scraped(port)
    runs = sum(ledger.values())
    assert total(metrics, "holdfast_run_seconds_count") == runs
    assert total(metrics, "holdfast_wait_seconds_count") == runs
    assert total(metrics, "holdfast_settle_batch_runs_sum") == runs
    assert total(metrics, "holdfast_processes") == processes
    assert total(metrics, "holdfast_leading") == 1
    assert total(metrics, "holdfast_slots", queue="mail") == 100 * processes
    worker.signal()
    assert worker.ended() == 0


def test_every_metric_is_named_once_and_has_a_type(start: Start, conn: psycopg.Connection) -> None:
    worker = start("--metrics-port", "0")
    port = port_of(worker)
    worker.wait_for_log("worker started")
    block_until(lambda: total(scraped(port), "holdfast_workers_live") == 1, "a live worker")
    found = scraped(port)
    assert {metric.name.removesuffix("_total") for metric in METRICS} == set(found)
    for metric in METRICS:
        family = found[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.type, metric.help)
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels)


def test_what_waits_in_queues_is_asked_of_the_database(start: Start, conn: psycopg.Connection) -> None:
    for n in range(3):
        enqueue(conn, "elsewhere", "parcels", number=n)
    conn.execute("insert into holdfast.queue (name, paused_at) values ('parcels', now())")
    worker = start("--metrics-port", "0", "--processes", "2")
    port = port_of(worker)
    worker.wait_for_log("worker started", times=2)
    block_until(lambda: total(scraped(port), "holdfast_workers_live") == 2, "two workers")
    metrics = scraped(port)
    assert total(metrics, "holdfast_queue_ready", queue="parcels") == 3
    assert total(metrics, "holdfast_queue_paused", queue="parcels") == 1
    assert total(metrics, "holdfast_queue_oldest_wait_seconds", queue="parcels") > 0
    assert total(metrics, "holdfast_jobs", state="ready") == 3


def test_however_often_anybody_looks_the_database_is_asked_every_few_seconds(
    start: Start, conn: psycopg.Connection
) -> None:
    worker = start("--metrics-port", "0", "--processes", "2")
    port = port_of(worker)
    worker.wait_for_log("worker started", times=2)
    block_until(lambda: total(scraped(port), "holdfast_workers_live") == 2, "an answer")
    before = total(scraped(port), "holdfast_database_questions_total")
    after = [total(scraped(port), "holdfast_database_questions_total") for _ in range(20)]
    assert after[-1] - before <= 1
    asking = "select count(*) from pg_stat_activity where application_name = 'holdfast/questions'"
    assert conn.execute(asking).fetchone() == (1,)


def test_counts_that_were_scraped_stay_when_their_process_is_killed(
    start: Start, conn: psycopg.Connection
) -> None:
    worker = start("--metrics-port", "0", "--processes", "2", "--lease", "2s")
    port = port_of(worker)
    worker.wait_for_log("worker started", times=2)
    fill(conn, 50)
    drained(worker, conn)
    ledger = sum(row[3] for row in conn.execute(SUMS).fetchall())
    block_until(lambda: total(scraped(port), "holdfast_runs_total") == ledger, "all runs are counted")
    os.kill(worker.children()[0], signal.SIGKILL)
    worker.wait_for_log("worker started", times=3)
    assert total(scraped(port), "holdfast_runs_total") == ledger
    fill(conn, 50)
    drained(worker, conn)
    ledger = sum(row[3] for row in conn.execute(SUMS).fetchall())
    block_until(lambda: total(scraped(port), "holdfast_runs_total") == ledger, "new runs are added")
    assert total(scraped(port), "holdfast_processes") == 2


def test_runs_of_a_killed_process_are_counted_as_rescues_by_the_leader(
    start: Start, conn: psycopg.Connection, folder: Path
) -> None:
    worker = start("--metrics-port", "0", "--processes", "2", "--lease", "1s")
    port = port_of(worker)
    worker.wait_for_log("worker started", times=2)
    job = enqueue(conn, "wait_for", name=str(folder / "never"))
    running = "select w.pid from holdfast.lease l join holdfast.worker w on w.id = l.worker where l.job = %s"
    [pid] = block_until(lambda: conn.execute(running, [job]).fetchone(), "the job runs")
    os.kill(pid, signal.SIGKILL)
    block_until(lambda: total(scraped(port), "holdfast_rescues_total", kind="wait_for") == 1, "a rescue")
    assert total(scraped(port), "holdfast_runs_total", kind="wait_for", outcome="retried") == 1


def test_a_port_that_is_taken_is_told_in_one_line(start: Start) -> None:
    first = start("--metrics-port", "0")
    port = port_of(first)
    second = start("--metrics-port", str(port))
    assert second.ended() == 1
    assert (
        second.log
        == f"holdfast: metrics cannot be served at 127.0.0.1, port {port}: Address already in use\n"
    )


def test_a_host_without_a_port_is_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["worker", "-A", "shop:app", "--metrics-host", "0.0.0.0"]) == 2
    assert "give --metrics-port too" in capsys.readouterr().err


def test_another_path_says_which_there_are(start: Start) -> None:
    port = port_of(start("--metrics-port", "0"))
    assert asked(port, "/") == (404, "ask for /metrics, /healthz or /readyz\n")
