"""`holdfast enqueue` with `--debounce` and `--unique-for`, and what `jobs show` says of such jobs."""

import psycopg
import pytest

from holdfast.cli import main

Captured = pytest.CaptureFixture[str]
DEBOUNCED = ("enqueue", "sync", "--force", "--unique-key", "u", "--debounce", "1h", "--max-wait", "2h")
THROTTLED = ("enqueue", "remind", "--force", "--unique-key", "r", "--unique-for", "1h")


def shown(capsys: Captured, dsn: str, *words: str) -> list[str]:
    assert main([*words, "--dsn", dsn]) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


def test_a_waiting_job_gets_the_arguments_and_says_until_when_it_is_put_off(
    dsn: str, capsys: Captured
) -> None:
    assert shown(capsys, dsn, *DEBOUNCED, "-p", "n:=1") == ["job 1 is enqueued"]
    assert shown(capsys, dsn, *DEBOUNCED, "-p", "n:=2") == [
        "job 1 waits with this unique key: it has these arguments now"
    ]
    lines = shown(capsys, dsn, "jobs", "show", "1")
    assert any(line.startswith("debounce since ") and " UTC at the latest, in " in line for line in lines)
    assert any("It is debounced, for the first time" in line for line in lines)
    with psycopg.connect(dsn) as connection:
        assert connection.execute("select args ->> 'n' from holdfast.job").fetchall() == [("2",)]


def test_others_are_dropped_after_its_end_and_its_key_says_until_when(dsn: str, capsys: Captured) -> None:
    assert shown(capsys, dsn, *THROTTLED) == ["job 1 is enqueued"]
    shown(capsys, dsn, "jobs", "cancel", "1")
    assert shown(capsys, dsn, *THROTTLED) == ["job 1 has this unique key: nothing was enqueued"]
    assert any(line.startswith("unique r, held until ") for line in shown(capsys, dsn, "jobs", "show", "1"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--debounce", "5s"], "debounce needs unique"),
        (["--unique-key", "k", "--max-wait", "5s"], "max_wait needs debounce"),
        (["--unique-key", "k", "--debounce", "5s", "--in", "1m"], "leave out delay and at"),
        (["--unique-for", "5s"], "unique_for needs unique"),
    ],
)
def test_what_cannot_be_meant_is_refused(dsn: str, words: list[str], problem: str, capsys: Captured) -> None:
    assert main(["enqueue", "sync", "--force", "--dsn", dsn, *words]) != 0
    assert problem in capsys.readouterr().err
