"""The benchmarks of limits run, at a scale that means nothing, so that they cannot rot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.figure import Figure, Target
from benchmarks.limits import gates
from benchmarks.limits.__main__ import MEASURES, ON_WISH
from benchmarks.limits.extent import Extent
from benchmarks.limits.page import write_page

ROOT = Path(__file__).parent.parent
MEASURED_ELSEWHERE = "batches"


def said(*arguments: str, temporary: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.limits", *arguments],
        check=False,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=380,
    )
    assert ran.returncode == 0, ran.stderr
    assert list(temporary.iterdir()) == []
    return ran.stdout


@pytest.mark.machine  # takes its time
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "names",
    [["drain"], [name for name in MEASURES if name not in ("drain", MEASURED_ELSEWHERE)]],
    ids=["drain", "others"],
)
def test_every_limit_is_measured_and_leaves_nothing_behind(tmp_path: Path, names: list[str]) -> None:
    figures = json.loads(said(*names, "--quick", "--json", temporary=tmp_path))["figures"]
    assert {figure["name"] for figure in figures} == set(names)
    # What is added is a difference, which such a short run can find below nothing.
    assert all(figure["value"] > 0 for figure in figures if figure["unit"] == "%")


def test_the_names_of_all_rows_about_limits_are_listed_one_by_one(tmp_path: Path) -> None:
    assert said("--list", temporary=tmp_path).split() == list(MEASURES)
    assert set(ON_WISH) < set(MEASURES)


def test_jobs_are_spread_over_the_keys_of_their_limit_in_turns() -> None:
    found = gates.Gate("lock", keys=2).jobs(3, "default")
    assert [[use.key for use in job.limits] for job in found] == [["0"], ["1"], ["0"]]
    assert [use.key for use in gates.UNKEYED.jobs(1, "default")[0].limits] == [""]
    assert gates.NONE.jobs(1, "default")[0].limits == ()


def test_added_time_is_shown_in_microseconds() -> None:
    target = Target("at_most", 15, "µs")
    assert (str(target), target.show(14.6), target.is_met_by(14.6)) == ("≤ 15 µs", "15 µs", True)


def test_the_page_about_limits_shows_every_figure_and_its_load(tmp_path: Path) -> None:
    figures = [Figure(name, f"measure of {name}", 1.0, Target("at_least", 0.5, "%"), "") for name in MEASURES]
    write_page(tmp_path, figures, "2 cores, load 0.5 before it began", Extent())
    page = (tmp_path / "benchmarks-limits.md").read_text("utf-8")
    assert [name for name in MEASURES if f"measure of {name} |" not in page] == []
    assert "load 0.5 before it began" in page
