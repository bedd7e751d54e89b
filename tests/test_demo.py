"""The demo from outside, as `make demo` runs it, only elsewhere."""

import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from demo.orders import Books
from demo.picture import Deliveries, Picture, Queue, Running
from demo.screen import Stage, screen
from rich.console import Console

from support.waiting import block_until

pytestmark = pytest.mark.machine  # it takes its time: 20 s, with processes of its own

ROOT = Path(__file__).parent.parent


@contextmanager
def demo(folder: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "demo", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def left_behind(folder: Path) -> list[str]:
    """Processes that still live in the folder: Postgres and workers."""
    left = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink().is_relative_to(folder):
                left.append((process / "cmdline").read_text("utf-8").replace("\0", " "))
    return left


def test_nothing_is_lost_and_payments_are_booked_exactly_once(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        out, _ = process.communicate(timeout=110)
    assert process.returncode == 0, out
    for word in ("caught up", "retried", "snoozed", "lost", "resumed", "dead"):
        assert re.search(rf"^\d:\d\d  {word} ", out, re.MULTILINE), out
    assert re.search(
        r"^Orders +26 placed; 4 rolled back, and none of their jobs exists", out, re.MULTILINE
    ), out
    jobs = re.search(
        r"^Jobs +139 enqueued, 138 succeeded, 1 dead; (\d+) more by schedules", out, re.MULTILINE
    )
    assert jobs, out
    assert int(re.findall(r"(\d+) jobs? ended", out)[-1]) == 139 + int(jobs[1]), out
    times = re.findall(r"^(\d:\d\d)  ", out, re.MULTILINE)
    assert times == sorted(times), out
    assert not re.search(r"\b1 jobs", out), out
    assert re.search(r"^Payments +booked exactly once: 26 of 26", out, re.MULTILINE), out
    assert re.search(
        r"^Deliveries +10 of 10 flows shipped, each step once; 1 resumed after a kill", out, re.MULTILINE
    ), out
    assert re.search(
        r"^Schedules +stock counted \d+ times, once for each plan; books closed 8 h late", out, re.MULTILINE
    ), out
    assert re.search(r"^Label printer +\d+ labels, never two at once", out, re.MULTILINE), out
    assert re.search(r"^In the end +0 lost", out, re.MULTILINE), out
    assert int(re.findall(r"(\d+) rescued from a killed worker", out)[0]) >= 1
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize(("arguments", "code"), [((), 130), (("--keep",), 0)])
def test_ctrl_c_sums_up_and_leaves_nothing_behind(
    tmp_path: Path, arguments: tuple[str, ...], code: int
) -> None:
    with demo(tmp_path, *arguments) as process:
        assert process.stdout
        seen = ""
        while not re.search(r"[1-9]\d* jobs ended", seen):
            line = process.stdout.readline()
            assert line, seen
            seen += line
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == code, seen + rest
    assert "0 lost" in rest
    assert "Traceback" not in seen + rest
    assert ("psql" in seen) is ("--keep" in arguments)
    block_until(lambda: not left_behind(tmp_path), lambda: f"left: {left_behind(tmp_path)}", within=10)


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_view_fits_into_the_terminal_and_leaves_no_column_out(width: int) -> None:
    running = Running(7, "tell_tax_office", "12345", 2, timedelta(seconds=12.3), 4194303, is_silent=False)
    counts = Queue("mail", 12, 10, 11, 1234, 1)
    picture = Picture(timedelta(), 2, {"mail": counts}, [running], [], [], Deliveries(10, 10, 10, 10))
    console = Console(width=width, height=24, force_terminal=True, file=io.StringIO(), color_system=None)
    with console.capture() as drawn, screen(console, Stage(Books(), 30, "Ctrl-C ends it")) as shown:
        shown.show(picture)
    lines = re.sub(r"\x1b\[\??\d*\w", "", drawn.get()).splitlines()
    assert max(map(len, lines)) <= width
    *_, row = [line for line in lines if "tell_tax_office" in line]
    assert row.split() == [
        *("mail", "12", "10", "11", "1234", "1"),
        *("tell_tax_office", "12345", "12.3", "s", "2", "4194303"),
    ]
    *_, flows = [line for line in lines if line.startswith("Flows")]
    assert flows.rstrip().endswith("10 shipped")
