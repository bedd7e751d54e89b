"""The benchmarks of each way to run a job run, at a scale that means nothing, so that they cannot rot."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.figure import Figure, Target, markdown
from benchmarks.found import Found
from benchmarks.peers.effort import Effort
from benchmarks.peers.plot import plot
from benchmarks.peers.tally import Tally
from benchmarks.ways.__main__ import MEASURES
from benchmarks.ways.extent import Extent
from benchmarks.ways.page import write_page
from benchmarks.ways.turns import Pair, Ran, best, middle

ROOT = Path(__file__).parent.parent
OTHER_SYSTEMS = ("commands", "soak")
CHEAP = ("log", "threads")


def ways(*arguments: str, temporary: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.ways", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def names_found(running: "subprocess.Popen[str]", temporary: Path) -> set[str]:
    answer, progress = running.communicate(timeout=380)
    assert running.returncode == 0, progress
    assert list(temporary.iterdir()) == []
    figures = json.loads(answer)["figures"]
    assert all(figure["value"] > 0 for figure in figures)
    return {figure["name"] for figure in figures}


@pytest.mark.machine  # takes its time
@pytest.mark.timeout(200)
def test_the_cheapest_ways_are_measured_and_leave_nothing_behind(tmp_path: Path) -> None:
    assert names_found(ways(*CHEAP, "--quick", "--json", temporary=tmp_path), tmp_path) == set(CHEAP)


@pytest.mark.machine  # takes its time
@pytest.mark.timeout(400)
def test_all_other_ways_of_holdfast_are_measured(tmp_path: Path) -> None:
    rest = [name for name in MEASURES if name not in (*CHEAP, *OTHER_SYSTEMS)]
    assert names_found(ways(*rest, "--quick", "--json", temporary=tmp_path), tmp_path) == set(rest)


@pytest.mark.machine  # installs the other systems, if they are not there yet
@pytest.mark.timeout(400)
def test_the_commands_of_other_systems_are_measured(tmp_path: Path) -> None:
    running = subprocess.Popen(
        ["make", "--silent", "bench-ways", f"ARGS={' '.join(OTHER_SYSTEMS)} --quick --json"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert names_found(running, tmp_path) == set(OTHER_SYSTEMS)


@pytest.mark.machine  # takes its time
@pytest.mark.timeout(120)
def test_an_interrupted_run_stops_its_server_and_the_worker_that_it_measured(tmp_path: Path) -> None:
    running = ways("log", temporary=tmp_path)
    assert running.stderr is not None
    for line in running.stderr:
        if "holdfast worker:" in line:  # the first round is over, the second has begun
            break
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=100)
    assert running.returncode == 128 + signal.SIGINT
    assert list(tmp_path.iterdir()) == []
    assert not processes_of(tmp_path)


def processes_of(temporary: Path) -> list[str]:
    """Command lines of those that were started with this directory for their files."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            if f"TMPDIR={temporary}\0".encode() in environment:
                found.append((process / "cmdline").read_text())
        except OSError:
            continue  # it has ended
    return found


def test_the_names_of_all_rows_are_listed_one_by_one(tmp_path: Path) -> None:
    said, _ = ways("--list", temporary=tmp_path).communicate(timeout=60)
    assert said.split() == list(MEASURES)


def ran(rate: float, cost: float = 1.0) -> Ran:
    return Ran(rate, Effort(cost, cost))


def test_a_figure_is_that_of_the_round_with_the_middle_ratio() -> None:
    ours, theirs = [ran(10), ran(30), ran(20)], [ran(20), ran(20), ran(20)]
    assert middle(ours, theirs) == Pair(ran(20), ran(20))


def test_the_middle_round_can_be_chosen_by_what_a_job_costs() -> None:
    ours, theirs = [ran(1, 3), ran(2, 1), ran(3, 2)], [ran(1)] * 3
    assert middle(ours, theirs, by=lambda pair: pair.cost).ours == ran(3, 2)


def test_beside_another_system_the_fastest_round_of_each_side_counts() -> None:
    assert best([ran(10), ran(30)], [ran(9), ran(6)]) == Pair(ran(30), ran(9))


def test_each_process_counts_in_a_place_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "tally"
    with Tally.at(path, 2) as all_of_them, Tally.own(path) as first, Tally.own(path) as second:
        first.add()
        second.add()
        second.add()
        assert all_of_them.total == 3
        with pytest.raises(IndexError, match="taken"), Tally.own(path):
            pass


def figure(name: str, value: float = 1.0, target: Target | None = None) -> Figure:
    return Figure(name, f"measure of {name}", value, target or Target("at_least", 0.5, "%"), "2 against 1")


def test_a_row_without_a_target_neither_passes_nor_misses() -> None:
    informative = figure("soak", 0.1, Target.informative("x"))
    assert markdown([informative]).endswith("| measure of soak | 0.10 x | none |  | 2 against 1 |")
    assert "soak" not in plot([informative, figure("log")])


def test_figures_of_several_runs_are_put_together_and_a_later_run_wins(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    Found([figure("log", 0.3), figure("log", 0.4)], "2 cores", [1.0]).put_into(file)
    Found([figure("step", 2.0, Target("at_most", 1.5, "x"))], "2 cores", [2.0]).put_into(file)
    together = Found([figure("log", 0.75)], "2 cores", [3.0]).put_into(file)
    assert together.in_order(["log", "step"]) == [
        figure("log", 0.75),
        figure("step", 2.0, Target("at_most", 1.5, "x")),
    ]
    assert together.machine == "2 cores, 2 runs, load 2.0 to 3.0 before they began"


def test_the_page_shows_every_figure_and_every_command_that_was_run(tmp_path: Path) -> None:
    write_page(tmp_path, [figure(name) for name in MEASURES], "2 cores", Extent())
    page = (tmp_path / "benchmarks-ways.md").read_text("utf-8")
    assert [name for name in MEASURES if f"measure of {name} |" not in page] == []
    assert all(f"`{command}" in page for command in ("holdfast worker -A", "pgq run", "procrastinate --app="))
    assert (tmp_path / "benchmarks-ways.svg").read_text("utf-8").count("<rect") == len(MEASURES)


def test_the_page_about_ways_has_a_figure_for_every_row() -> None:
    page = (ROOT / "docs/reference/benchmarks-ways.md").read_text("utf-8")
    for measure in (
        "against `--log-level warning`",
        "against `pgq run`",
        "default slots",
        "in `ctx.transaction()`",
        "AsyncSession",
        "`loop.run_in_executor`",
        "`time.sleep`",
        "`ProcessPoolExecutor(",
        "against what the cores can give",
        "8 worker processes",
        "scopes",
        "a lone flow's whole step",
        "against the sum of its parts",
    ):
        assert re.search(rf"^\| .*{re.escape(measure)}.* \|", page, re.MULTILINE), measure
