"""Progress of long work: a bar on a terminal, a line every few seconds elsewhere."""

from collections.abc import Iterator

import pytest

from cli.terminal import terminal
from holdfast.cli.progress import _Lines, progress, progress_words

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("done", "total", "took", "words"),
    [
        (0, 5_000, 0.0, "0 of 5,000 jobs"),
        (1_200, 5_000, 3.0, "1,200 of 5,000 jobs, 400/s, 9s left"),
        (5_000, 5_000, 10.0, "5,000 of 5,000 jobs, 500/s"),
        (6_000, 5_000, 10.0, "6,000 of 6,000 jobs, 600/s"),
        (1_200, None, 3.0, "1,200 jobs, 400/s"),
        (3, 10, 60.0, "3 of 10 jobs, 3.0/min, 2m 20s left"),
    ],
)
def test_progress_tells_count_rate_and_time_left(
    done: int, total: int | None, took: float, words: str
) -> None:
    assert progress_words(done, total, "jobs", took) == words


def test_elsewhere_a_line_comes_every_five_seconds_at_most(capsys: Captured) -> None:
    times: Iterator[float] = iter([0.0, 1.0, 4.9, 5.0, 6.0, 9.9, 10.1])
    lines = _Lines("retry", 100, "jobs", lambda: next(times))
    for done in (10, 20, 50, 60, 70, 80):
        lines.at(done)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "holdfast: retry: 50 of 100 jobs, 10/s, 5s left",
        "holdfast: retry: 80 of 100 jobs, 8/s, 2s left",
    ]


def test_work_that_is_over_at_once_says_nothing_where_there_is_no_terminal(capsys: Captured) -> None:
    with progress("retry", total=2, unit="jobs") as shown:
        shown.at(1)
        shown.at(2)
        shown.say("a line of the work itself")
    assert capsys.readouterr() == ("a line of the work itself\n", "")


def test_migrations_are_applied_with_a_bar_that_goes(dsn: str) -> None:
    with terminal("migrate", "--schema", "other", "--dsn", dsn, columns=120) as shown:
        shown.read_to_the_end()
    assert "━" in shown.text, "a bar was drawn"
    assert "migrations" in shown.text
    assert shown.process.returncode == 0
    assert any(line.endswith("applying 0001_schema") for line in shown.lines)
    assert shown.lines[-1].startswith('schema "other" is at ')


def test_a_bar_has_no_colour_if_the_user_wants_none(dsn: str) -> None:
    with terminal("--no-color", "migrate", "--schema", "other", "--dsn", dsn, columns=120) as shown:
        shown.read_to_the_end()
    assert "━" in shown.text
    assert "\x1b[3" not in shown.written
    assert "\x1b[1m" not in shown.written
