"""`holdfast prune`: what it says, what it asks, what it deletes."""

import json

import psycopg
import pytest

from holdfast.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def ended(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three jobs that succeeded and one that was cancelled are past their retention; one is to be kept."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into holdfast.ledger"
            " (job, run, finished_at, keep_until, outcome, attempt, is_final, queue, kind)"
            " select n, n, now() - interval '3 days', now() + rest, outcome::holdfast.outcome, 1, true,"
            " 'default', 'work'"
            " from (values (1, '-1s'::interval, 'succeeded'), (2, '-1s', 'succeeded'),"
            " (3, '-1s', 'succeeded'), (4, '-1s', 'cancelled'), (5, '1h', 'succeeded'))"
            " as j (n, rest, outcome)"
        )
    return dsn


def kept(dsn: str) -> list[int]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return [row[0] for row in connection.execute("select job from holdfast.ledger order by job")]


def told(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main(["prune", *arguments]) == code
    return capsys.readouterr().out


def test_a_dry_run_counts_and_deletes_nothing(ended: str, capsys: Captured) -> None:
    assert told(capsys, "--dry-run") == "4 ended jobs may go (3 succeeded, 1 cancelled)\n"
    assert json.loads(told(capsys, "--dry-run", "--state", "cancelled", "--json")) == {
        "deleted": 0,
        "counts": {"cancelled": 1},
        "is_capped": False,
    }
    assert kept(ended) == [1, 2, 3, 4, 5]


def test_it_asks_before_it_deletes(ended: str, capsys: Captured) -> None:
    assert main(["prune"]) == 4
    captured = capsys.readouterr()
    _, refused = captured.err.splitlines()
    assert refused == (
        "holdfast: this would delete 4 ended jobs with all that is known of them: give --yes to do it"
    )
    assert kept(ended) == [1, 2, 3, 4, 5]


def test_it_deletes_what_may_go(ended: str, capsys: Captured) -> None:
    assert told(capsys, "--yes", "--state", "succeeded", "--older-than", "1d") == "deleted 3 jobs\n"
    assert kept(ended) == [4, 5]
    assert json.loads(told(capsys, "--yes", "--json")) == {"deleted": 1}
    nothing = "nothing may go: no ended job that this asks for is past its retention\n"
    assert told(capsys, "--yes") == nothing
    assert kept(ended) == [5]


@pytest.mark.parametrize(
    "arguments", [("--state", "ready"), ("--older-than", "soon"), ("--older-than", "-1d")]
)
def test_wrong_options_are_exit_code_2(ended: str, arguments: tuple[str, ...]) -> None:
    assert main(["prune", *arguments]) == 2
