"""Asks a worker's metrics port, and reads the answer as Prometheus does."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from cli.worker_processes import WorkerProcess
from support.waiting import block_until

PORT = re.compile(r"metrics at http://127\.0\.0\.1:(\d+)/metrics")


def port_of(worker: WorkerProcess) -> int:
    """Which port `--metrics-port 0` has found."""
    worker.wait_for_log("metrics at ")
    found = PORT.search(worker.log)
    assert found
    return int(found[1])


def asked(port: int, path: str) -> tuple[int, str]:
    """The status and the body."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def scraped(port: int) -> dict[str, Metric]:
    status, text = asked(port, "/metrics")
    assert status == 200
    return {metric.name: metric for metric in text_string_to_metric_families(text)}


def total(metrics: dict[str, Metric], sample: str, **labels: str) -> float:
    """The sum over all series of a sample that have these labels."""
    family = metrics[re.sub(r"_(total|bucket|count|sum)$", "", sample)]
    return sum(
        each.value for each in family.samples if each.name == sample and labels.items() <= each.labels.items()
    )


def wait_for(port: int, path: str, status: int, reason: str = "") -> None:
    """Until a probe answers so."""
    answers: list[tuple[int, str]] = []

    def is_so() -> bool:
        answers.append(asked(port, path))
        return answers[-1][0] == status and reason in answers[-1][1]

    block_until(is_so, lambda: f"{path} is {status} {reason!r}: {answers[-1:]}")


def reasons(port: int, path: str) -> Iterable[str]:
    found: list[str] = json.loads(asked(port, path)[1])["reasons"]
    return found
