"""Lines that a thread writes: in order, none lost that could be written, and never in the way of work."""

import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from holdfast.telemetry.line_writer import MOST_WAITING, LineWriter
from support.waiting import block_until

LONG = "x" * 99_999 + "\n"


def notice(missing: int, why: str) -> str:
    return f"missing {missing}: {why}\n"


@contextmanager
def pipe() -> Iterator[tuple[int, TextIO]]:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        try:
            yield reading, stream
        finally:
            os.close(reading)


def read_all(reading: int) -> str:
    """What is in the pipe, and what comes while it is read."""
    found = b""
    while select.select([reading], [], [], 1)[0] and (some := os.read(reading, 1 << 20)):
        found += some
    return found.decode()


def test_lines_come_whole_and_in_order(tmp_path: Path) -> None:
    lines = [f"Zeile {number} ü\n" for number in range(10_000)]
    with (tmp_path / "log").open("w", encoding="utf-8") as stream:
        writer = LineWriter(stream, notice)
        for line in lines:
            writer.put(line)
        assert writer.close()
    assert (tmp_path / "log").read_text("utf-8") == "".join(lines)


def test_flush_waits_until_everything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w", encoding="utf-8") as stream:
        writer = LineWriter(stream, notice)
        for number in range(5):
            writer.put(f"{number}\n")
            assert writer.flush()
            assert path.read_text("utf-8").endswith(f"{number}\n")
        assert writer.close()


def test_a_reader_that_stops_reading_costs_lines_and_is_told_how_many() -> None:
    with pipe() as (reading, stream):
        writer = LineWriter(stream, notice)
        many = 3 * MOST_WAITING // len(LONG)
        for _ in range(many):
            writer.put(LONG)
        assert not writer.flush()
        text = read_all(reading)
        kept = text.count(LONG)
        assert 0 < kept < many
        assert len(text) < MOST_WAITING + 2 * len(LONG)
        assert text.endswith(f"missing {many - kept}: they were not read in time\n")
        writer.put("again\n")
        assert writer.close()
        assert read_all(reading) == "again\n"


def test_what_is_missing_is_told_where_it_is_missing() -> None:
    with pipe() as (reading, stream):
        writer = LineWriter(stream, notice)
        for _ in range(2 * MOST_WAITING // len(LONG)):
            writer.put(LONG)
        text = read_all(reading)
        writer.put("behind\n")
        assert writer.close()
        text += read_all(reading)
        assert text.endswith("they were not read in time\nbehind\n")


def test_a_reader_that_is_gone_disturbs_nothing() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", encoding="utf-8") as stream:
        writer = LineWriter(stream, notice)
        os.close(reading)
        for number in range(1_000):
            writer.put(f"{number}\n")
        assert writer.close()


def test_a_disk_that_was_full_has_a_line_about_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with Path("/dev/full").open("w", encoding="utf-8") as full, path.open("w", encoding="utf-8") as log:
        writer = LineWriter(full, notice)
        for number in range(7):
            writer.put(f"{number}\n")
        assert writer.flush()
        os.dup2(log.fileno(), full.fileno())
        writer.put("behind\n")
        assert writer.close()
    assert path.read_text("utf-8") == "missing 7: [Errno 28] No space left on device\nbehind\n"


def test_a_line_that_was_torn_is_ended_before_the_next_one(tmp_path: Path) -> None:
    """A file of which only so much may be written, as on a disk that fills up in the middle of a line."""
    script = """
import resource, signal, sys
from holdfast.telemetry.line_writer import LineWriter

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
writer = LineWriter(sys.stderr, lambda missing, why: f"missing {missing}\\n")
writer.put("first\\n")
writer.put("second\\n")
writer.flush()
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
writer.put("third\\n")
writer.close()
"""
    with (tmp_path / "log").open("w") as log:
        subprocess.run([sys.executable, "-c", script], stderr=log, check=True, timeout=60)
    assert (tmp_path / "log").read_text("utf-8") == "first\nseco\nmissing 2\nthird\n"


def test_a_pipe_without_waiting_is_waited_for() -> None:
    """Another process that has the same pipe may set it to be so."""
    with pipe() as (reading, stream):
        os.set_blocking(stream.fileno(), False)
        writer = LineWriter(stream, notice)
        for _ in range(10):
            writer.put(LONG)
        assert read_all(reading) == LONG * 10
        assert writer.close()


def test_lines_of_several_processes_stay_whole_in_one_pipe() -> None:
    script = """
import sys
from holdfast.telemetry.line_writer import LineWriter

writer = LineWriter(sys.stderr, lambda missing, why: "missing\\n")
for number in range(3_000):
    writer.put(sys.argv[1] * (number % 150) + "|\\n")
writer.close()
"""
    with pipe() as (reading, stream):
        running = [
            subprocess.Popen([sys.executable, "-c", script, letter], stderr=stream) for letter in "abc"
        ]
        text = b""
        while any(each.poll() is None for each in running) or select.select([reading], [], [], 0)[0]:
            if select.select([reading], [], [], 0.1)[0]:
                text += os.read(reading, 1 << 16)
        lines = text.decode().splitlines()
    for letter in "abc":
        own = [line for line in lines if set(line) == {letter, "|"}]
        assert own == [letter * (number % 150) + "|" for number in range(3_000) if number % 150]
    assert len(lines) == 9_000


def test_a_write_to_a_pipe_or_socket_is_small_enough_to_stay_in_one_piece() -> None:
    """A socket of packets shows what was written with one call."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    lines = [f"{'x' * (number % 300)}{number}\n" for number in range(500)]
    with ours, theirs, os.fdopen(os.dup(theirs.fileno()), "w", encoding="utf-8") as stream:
        ours.settimeout(30)
        writer = LineWriter(stream, notice)
        for line in lines:
            writer.put(line)
        found: list[str] = []
        while not found or not found[-1].endswith(lines[-1]):
            found.append(ours.recv(1 << 20).decode())
        assert writer.close()
    assert "".join(found) == "".join(lines)
    assert all(each.endswith("\n") and len(each) <= select.PIPE_BUF for each in found)
    assert len(found) < len(lines) / 10


def test_a_stream_that_was_closed_disturbs_nothing() -> None:
    with pipe() as (_, stream):
        writer = LineWriter(stream, notice)
        stream.close()
        writer.put("1\n")
        assert writer.close()


def test_the_thread_ends_with_the_writer() -> None:
    def threads() -> int:
        return sum(each.name == "holdfast-log" for each in threading.enumerate())

    before = threads()
    with pipe() as (_, stream):
        writer = LineWriter(stream, notice)
        assert threads() == before + 1
        assert writer.close()
    block_until(lambda: threads() == before, "the thread has ended")


def test_text_that_the_stream_cannot_encode_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w", encoding="ascii") as stream:
        writer = LineWriter(stream, notice)
        writer.put("Grüße \ud83d\n")
        assert writer.close()
    assert path.read_bytes() == b"Gr\\xfc\\xdfe \\ud83d\n"
