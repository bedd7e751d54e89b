"""The demo from outside, as `make demo` runs it, only elsewhere."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

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
    assert re.search(r"^Jobs +139 enqueued, 138 succeeded, 1 dead", out, re.MULTILINE), out
    assert re.search(r"^Payments +booked exactly once: 26 of 26", out, re.MULTILINE), out
    assert re.search(
        r"^Deliveries +10 of 10 flows shipped, each step once; 1 resumed after a kill", out, re.MULTILINE
    ), out
    assert re.search(
        r"^Schedules +stock counted \d+ times, once for each plan; books closed 8 h late", out, re.MULTILINE
    ), out
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
    end = time.monotonic() + 10
    while left_behind(tmp_path) and time.monotonic() < end:
        time.sleep(0.1)
    assert left_behind(tmp_path) == []
