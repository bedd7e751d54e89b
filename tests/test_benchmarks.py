"""The benchmarks run, each of them at a scale that means nothing, so that they cannot rot."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MEASURES = ("cycle", "steady", "blocked", "due", "backlog", "wal", "enqueue", "schedules", "recovery")


def benchmarks(*arguments: str, temporary: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.machine  # takes its time
@pytest.mark.timeout(400)
def test_every_measure_gives_a_figure_and_leaves_nothing_behind(tmp_path: Path) -> None:
    running = benchmarks("--tiny", "--json", temporary=tmp_path)
    answer, progress = running.communicate(timeout=380)
    assert running.returncode == 0, progress
    found = json.loads(answer)
    assert {figure["name"] for figure in found["figures"]} == set(MEASURES)
    assert all(figure["value"] > 0 for figure in found["figures"])
    assert "fsync on" in found["machine"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.machine  # takes its time
@pytest.mark.timeout(200)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_benchmark_stops_its_server_and_all_its_processes(
    tmp_path: Path, number: signal.Signals
) -> None:
    running = benchmarks("--tiny", "--seconds", "100", "steady", temporary=tmp_path)
    assert running.stderr is not None
    for line in running.stderr:
        if "claiming connections" in line:
            break
    running.send_signal(number)
    running.communicate(timeout=180)
    assert running.returncode == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_measure_is_refused_with_the_names_of_all(tmp_path: Path) -> None:
    running = benchmarks("speed", temporary=tmp_path)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 2
    assert all(name in said for name in MEASURES)


def test_the_page_about_the_benchmarks_names_every_measure() -> None:
    page = (ROOT / "docs/reference/benchmarks.md").read_text("utf-8")
    assert [name for name in MEASURES if f"`{name}`" not in page] == []


@pytest.mark.timeout(400)
def test_batch_handlers_are_measured_beside_the_same_jobs_one_by_one(tmp_path: Path) -> None:
    running = subprocess.run(
        [sys.executable, "-m", "benchmarks.batches", "--quick", "--json"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=380,
    )
    assert running.returncode == 0, running.stderr
    assert [figure["value"] > 0 for figure in json.loads(running.stdout)["figures"]] == [True] * 4
    assert list(tmp_path.iterdir()) == []
