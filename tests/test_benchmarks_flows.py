"""The benchmarks of flows run, at a scale that means nothing, so that they cannot rot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def figures(command: list[str], temporary: Path) -> dict[str, list[float]]:
    """What each measure found."""
    environment = {**os.environ, "TMPDIR": str(temporary)}
    ran = subprocess.run(
        command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280
    )
    assert ran.returncode == 0, ran.stderr
    assert list(temporary.iterdir()) == []
    found: dict[str, list[float]] = {}
    for figure in json.loads(ran.stdout)["figures"]:
        found.setdefault(figure["name"], []).append(figure["value"])
    return found


@pytest.mark.machine  # takes its time
@pytest.mark.timeout(300)
def test_a_lone_flow_and_sleeping_ones_are_measured_and_leave_nothing_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.flows", "lone", "sleeping", "--quick", "--json"]
    found = figures(command, tmp_path)
    assert set(found) == {"lone", "sleeping"}
    assert all(value > 0 for values in found.values() for value in values)


@pytest.mark.machine  # installs the other systems, if they are not there yet
@pytest.mark.timeout(300)
def test_flows_are_measured_beside_two_other_systems(tmp_path: Path) -> None:
    found = figures(["make", "--silent", "bench-flows", "ARGS=beside --quick --json"], tmp_path)
    assert len(found["beside"]) == 2


def test_the_page_about_flows_has_a_figure_for_every_measure() -> None:
    page = (ROOT / "docs/reference/benchmarks-flows.md").read_text("utf-8")
    for measure in (
        "against dbos",
        "against absurd",
        "a lone flow's checkpoint",
        "sleeping flows, against none",
    ):
        assert measure in page
