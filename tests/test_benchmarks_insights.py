"""The benchmark of operators' questions runs, with so few jobs that it means nothing: it cannot rot."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.insights.beside import Beside
from benchmarks.insights.questions import FILTERS, middle_and_late

ROOT = Path(__file__).parent.parent


def insights(kept: Path, temporary: Path, *more: str) -> tuple[dict[str, Any], str]:
    """What it found, and what it told meanwhile."""
    small = ("--jobs", "2000", "--times", "1", "--seconds", "0.5", "--json", "--data", str(kept))
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.insights", *small, *more],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout), ran.stderr


@pytest.mark.machine  # takes its time
@pytest.mark.timeout(400)
def test_every_question_is_asked_idle_beside_a_worker_and_after_a_restart(tmp_path: Path) -> None:
    kept, temporary = tmp_path / "kept", tmp_path / "temporary"
    temporary.mkdir()
    found, told = insights(kept, temporary, "--turns", "1")
    assert "  filled\n" in told
    assert {f"jobs list {text}".strip() for text in FILTERS} < {
        each["question"] for each in found["questions"]
    }
    assert all(min(each["p50"], each["p95_beside"], each["restarted"]) > 0 for each in found["questions"])
    assert found["worker"]["full_rate"] > found["worker"]["half_rate"] > 0
    again, told = insights(kept, temporary, "--turns", "0")
    assert "  filled by an earlier run\n" in told
    assert again["worker"] is None
    assert list(temporary.iterdir()) == []


def test_what_questions_cost_a_worker_is_the_middle_of_the_turns() -> None:
    beside = Beside({}, 100, 50, [10.0, 20.0, 10.0], [11.0, 20.0, 30.0])
    assert beside.growth == pytest.approx(0.1)
    assert middle_and_late([float(n) for n in range(101)]) == (50, 95)
