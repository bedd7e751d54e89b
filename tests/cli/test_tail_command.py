"""`holdfast jobs tail`, and what `jobs show` and `enqueue --follow` print of kept log lines."""

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from cli.processes import command, started
from cli.worker_processes import Start, enqueue
from holdfast import App, Context, Retry
from holdfast.cli import main
from holdfast.errors import JobEnded

Captured = pytest.CaptureFixture[str]

APP = """
import asyncio
import logging
from pathlib import Path

from holdfast import App, Context

app = App(keep_logs="always")


@app.job
async def work(ctx: Context, name: str) -> str:
    ctx.log.info("begun")
    while not Path(name).exists():
        await asyncio.sleep(0.01)
    logging.getLogger("bank").warning("slow")
    return "done"
"""
FOLLOWED = """\
12:00:00.000  ◔ started, attempt 1 of 2 on worker 1
12:00:01.000  INFO     bank: asking
12:00:01.500  ERROR    bank: refused \\x1b[31m
              and again
12:00:02.000  ↻ retried after 2s: ValueError: no
12:00:03.000  ◔ started, attempt 2 of 2 on worker 1
12:00:03.500  … 7 lines were dropped …
12:00:03.500  INFO     bank: the last
12:00:04.000  ✕ failed after 1s: ValueError: no
"""
SHOWN = """
  12:00:01.000  INFO     bank: asking
  12:00:01.500  ERROR    bank: refused \\x1b[31m
                and again
  12:00:03.500  … 7 lines were dropped …
  12:00:03.500  INFO     bank: the last
"""


@pytest.fixture
def failed(dsn: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """A job that has failed twice, at fixed times, with lines that are hard to print."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)

    async def fail() -> int:
        async with App(dsn) as app:

            @app.job(retry=Retry(max_attempts=2, backoff="0s"))
            async def work(ctx: Context) -> None:
                raise ValueError("no")

            handle = await work.enqueue()
            async with app.worker():
                with suppress(JobEnded):
                    await handle.result("60s")
            return handle.id

    job = asyncio.run(fail())
    with psycopg.connect(dsn, autocommit=True) as connection:
        for attempt, (start, end) in enumerate(((0, 2), (3, 4)), 1):
            connection.execute(
                "update holdfast.ledger set"
                " started_at = timestamptz '2026-01-01 12:00Z' + %s * interval '1s',"
                " finished_at = timestamptz '2026-01-01 12:00Z' + %s * interval '1s' where attempt = %s",
                [start, end, attempt],
            )
        for attempt, first, lines in (
            (1, 1, [(1.0, "INFO", "asking"), (1.5, "ERROR", "refused \x1b[31m\nand again")]),
            (2, 8, [(3.5, "INFO", "the last")]),
        ):
            text = json.dumps(
                [
                    {"time": 1767268800 + at, "level": level, "logger": "bank", "message": message}
                    for at, level, message in lines
                ]
            )
            connection.execute(
                "insert into holdfast.run_log (job, run, written_at, first, last, lines)"
                " select job, run, now(), %s, %s, %s from holdfast.ledger where attempt = %s",
                [first, first + len(lines) - 1, text, attempt],
            )
    return job


def test_an_ended_job_is_told_from_its_beginning(failed: int, capsys: Captured) -> None:
    assert main(["jobs", "tail", str(failed)]) == 0
    assert capsys.readouterr().out == FOLLOWED


def test_show_prints_the_last_lines(failed: int, capsys: Captured) -> None:
    assert main(["jobs", "show", str(failed)]) == 0
    assert capsys.readouterr().out.endswith(SHOWN)


def test_each_line_of_json_is_an_object(failed: int, capsys: Captured) -> None:
    assert main(["jobs", "tail", f"id:{failed}", "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    runs = sorted({each["run"] for each in told})
    about = {"job": failed, "kind": "work", "queue": "default"}
    assert told[0] == {
        "event": "started",
        "time": "2026-01-01T12:00:00+00:00",
        **about,
        "run": runs[0],
        "attempt": 1,
        "worker": 1,
        "max_attempts": 2,
    }
    assert told[1] == {
        "event": "log",
        "time": "2026-01-01T12:00:01+00:00",
        **about,
        "run": runs[0],
        "number": 1,
        "level": "INFO",
        "logger": "bank",
        "message": "asking",
        "dropped": 0,
    }
    assert told[-1] == {
        "event": "ended",
        "time": "2026-01-01T12:00:04+00:00",
        **about,
        "run": runs[1],
        "attempt": 2,
        "worker": 1,
        "outcome": "failed",
        "is_final": True,
        "took": 1.0,
        "error": {"code": "handler_error", "type": "ValueError", "message": "no"},
        "flag": None,
        "max_attempts": 2,
    }


def test_show_has_the_lines_as_json(failed: int, capsys: Captured) -> None:
    assert main(["jobs", "show", str(failed), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [line["message"] for line in shown["logs"]] == [
        "asking",
        "refused \x1b[31m\nand again",
        "the last",
    ]
    assert shown["has_more_logs"] is False


def test_an_unknown_job_and_a_wrong_filter_are_refused(failed: int, capsys: Captured) -> None:
    assert main(["jobs", "tail", "4711"]) == 3
    assert "job 4711 does not exist" in capsys.readouterr().err
    assert main(["jobs", "tail", "stat:failed"]) == 2
    assert 'a filter has no word "stat"' in capsys.readouterr().err


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_filter_is_refused(failed: int, capsys: Captured, empty: str) -> None:
    assert main(["jobs", "tail", empty]) == 2
    assert "the filter is empty: say which jobs, or leave it out for all" in capsys.readouterr().err


@pytest.mark.usefixtures("failed")
def test_it_says_what_it_follows_and_what_may_be_misspelt(dsn: str) -> None:
    with started("jobs", "tail", "kind:wrok", "--dsn", dsn) as tailing:
        assert tailing.stderr is not None
        assert tailing.stderr.readline() == "holdfast: following jobs that match kind:wrok; Ctrl-C stops\n"
        assert tailing.stderr.readline() == '  no worker has declared a kind "wrok"; did you mean "work"?\n'
        tailing.send_signal(signal.SIGINT)
        assert tailing.wait(60) == 0


@pytest.fixture
def working(folder: Path, start: Start) -> None:
    (folder / "shop.py").write_text(APP, "utf-8")
    start().wait_for_log("worker started")


def read(process: "subprocess.Popen[str]", count: int) -> list[str]:
    assert process.stdout is not None
    return [re.sub(r"^[\d:.]+  ", "", process.stdout.readline().rstrip("\n")) for _ in range(count)]


@pytest.mark.usefixtures("working")
def test_jobs_are_followed_as_they_run_until_ctrl_c(conn: psycopg.Connection, dsn: str, folder: Path) -> None:
    may_end = folder / "end"
    with started("jobs", "tail", "kind:work", "--dsn", dsn) as tailing:
        first = enqueue(conn, "work", name=str(may_end))
        # It may have begun to follow after the start, and tells what runs then.
        assert read(tailing, 1) == [f"work {first}  ◔ started, attempt 1 of 20 on worker 1"]
        may_end.touch()
        told = read(tailing, 2)
        if told[0].endswith("begun"):  # else it was written before it began to follow
            told = [told[1], *read(tailing, 1)]
        assert told[0] == f"work {first}  WARNING  bank: slow"
        assert told[1].startswith(f"work {first}  ✓ succeeded after ")
        second = enqueue(conn, "work", name=str(may_end))
        assert read(tailing, 3) == [
            f"work {second}  ◔ started, attempt 1 of 20 on worker 1",
            f"work {second}  INFO     holdfast.job.work: begun",
            f"work {second}  WARNING  bank: slow",
        ]
        tailing.send_signal(signal.SIGINT)
        assert tailing.wait(30) == 0
        assert tailing.stderr is not None
        assert tailing.stderr.read() == "holdfast: following jobs that match kind:work; Ctrl-C stops\n"


@pytest.mark.usefixtures("working")
def test_enqueue_follows_its_job_on_stderr(dsn: str, folder: Path) -> None:
    (folder / "end").touch()
    arguments = ["enqueue", "work", "-p", f"name={folder / 'end'}", "--follow", "--dsn", dsn, "--force"]
    done = subprocess.run(command(*arguments), capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == '"done"\n'
    told = [re.sub(r"^[\d:.]+  ", "", line) for line in done.stderr.splitlines()]
    assert told[-4:-1] == [
        "◔ started, attempt 1 of 20 on worker 1",
        "INFO     holdfast.job.work: begun",
        "WARNING  bank: slow",
    ]
    assert told[-1].startswith("✓ succeeded after ")


def test_a_closed_pipe_ends_it_quietly(failed: int, dsn: str) -> None:
    done = subprocess.run(
        f"{' '.join(command('jobs', 'tail', str(failed)))} | head -1",
        shell=True,  # a pipe is its point
        env={**os.environ, "HOLDFAST_DSN": dsn},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == FOLLOWED.splitlines(keepends=True)[0]
    assert done.stderr == ""


def on_a_terminal(*arguments: str, **variables: str) -> Iterator[bytes]:
    own, other = pty.openpty()
    running = subprocess.Popen(
        command(*arguments), stdin=other, stdout=other, stderr=other, env={**os.environ, **variables}
    )
    os.close(other)
    with suppress(OSError):  # the command has ended
        while text := os.read(own, 4096):
            yield text
    running.wait(30)
    os.close(own)


def test_levels_and_outcomes_have_colours_on_a_terminal(
    failed: int, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = b"".join(on_a_terminal("jobs", "tail", str(failed), "--dsn", dsn, TERM="xterm"))
    assert b"\x1b[31mERROR" in text
    assert "\x1b[31m✕ failed".encode() in text
    assert rb"refused \x1b[31m" in text, "what a job logs does not steer the terminal"
    plain = b"".join(on_a_terminal("--no-color", "jobs", "tail", str(failed), "--dsn", dsn, TERM="xterm"))
    assert b"\x1b" not in plain


def test_a_database_that_restarts_does_not_end_it(
    failed: int, dsn: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sessions are cut while it follows a job; the job ends then."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        job = enqueue(connection, "unknown")

        def cut_and_end(_seconds: float) -> None:
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            App(dsn).jobs.cancel_sync(job)
            connection.execute(
                "update holdfast.ledger set finished_at = now() - interval '2s' where job = %s", [job]
            )

        monkeypatch.setattr("holdfast.cli.tail.time.sleep", cut_and_end)
        assert main(["jobs", "tail", str(job)]) == 0
    assert "⊘ cancelled" in capsys.readouterr().out
