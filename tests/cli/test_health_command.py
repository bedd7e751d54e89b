"""`holdfast health`: a probe that runs a command."""

import json

import pytest

from cli.scrapes import port_of, wait_for
from cli.worker_processes import Start
from holdfast.cli import main

Captured = pytest.CaptureFixture[str]


def test_a_worker_is_healthy_and_ready(start: Start, capsys: Captured) -> None:
    port = port_of(start("--metrics-port", "0"))
    wait_for(port, "/readyz", 200)
    assert main(["health", "--port", str(port)]) == 0
    assert capsys.readouterr().out == "healthy\n"
    assert main(["health", "--port", str(port), "--ready"]) == 0
    assert capsys.readouterr().out == "ready\n"
    assert main(["health", "--port", str(port), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "reasons": []}


def test_a_worker_that_takes_no_jobs_is_healthy_and_not_ready(
    start: Start, capsys: Captured, monkeypatch: pytest.MonkeyPatch, dsn: str
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    worker = start("--metrics-port", "0")
    port = port_of(worker)
    wait_for(port, "/readyz", 200)
    assert main(["workers", "quiet", "1"]) == 0
    wait_for(port, "/readyz", 503)
    capsys.readouterr()
    assert main(["health", "--port", str(port)]) == 0
    assert main(["health", "--port", str(port), "--ready"]) == 5
    assert capsys.readouterr().out == (
        f"healthy\nprocess {worker.process.pid}: quiet, as an operator asked\n"
    )
    assert main(["health", "--port", str(port), "--ready", "--json"]) == 5
    assert json.loads(capsys.readouterr().out)["ok"] is False


def test_nobody_there_is_unhealthy(capsys: Captured) -> None:
    assert main(["health", "--port", "1"]) == 5
    assert capsys.readouterr().out == "no worker answers at http://127.0.0.1:1/healthz: Connection refused\n"
