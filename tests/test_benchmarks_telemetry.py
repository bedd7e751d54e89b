"""The benchmarks of metrics and tracing run, at a scale that means nothing, so that they cannot rot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.telemetry.__main__ import MEASURES

ROOT = Path(__file__).parent.parent


@pytest.mark.machine  # takes its time
@pytest.mark.timeout(200)
def test_the_cost_of_metrics_and_of_tracing_is_measured(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.telemetry", "--quick", "--json"],
        check=False,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert ran.returncode == 0, ran.stderr
    figures = json.loads(ran.stdout)["figures"]
    assert {figure["name"] for figure in figures} == set(MEASURES)
    assert all(figure["value"] > 0 for figure in figures)
    assert list(tmp_path.iterdir()) == []
