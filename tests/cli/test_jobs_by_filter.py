"""`holdfast jobs cancel --filter …`: preview, question, and an operation that outlives the command."""

import asyncio
import json
import signal
from typing import Any

import psycopg
import pytest

from cli.terminal import terminal
from holdfast import App
from holdfast.cli import main
from support.waiting import block_until

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def left(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three jobs that wait in one queue, two in another, and one that was cancelled."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    asyncio.run(leave(dsn, 4))
    return dsn


async def leave(dsn: str, count: int) -> None:
    async with App(dsn) as app:

        @app.job(queue="mail")
        async def welcome(user: int) -> None: ...

        @app.job(queue="payments")
        async def charge(order: int) -> None: ...

        handles = await app.enqueue_many(welcome.call(n) for n in range(count))
        await app.jobs.cancel(handles[0].id)
        await app.enqueue_many(charge.call(n) for n in range(2))


def told(capsys: Captured, *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["jobs", *arguments]) == code
    said = capsys.readouterr()
    return said.out, said.err


def states(dsn: str) -> dict[str, int]:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute("select state, count(*) from holdfast.jobs group by 1").fetchall()
    return {str(state): int(count) for state, count in rows}


def test_a_filter_is_previewed_and_refused_without_a_yes(left: str, capsys: Captured) -> None:
    out, err = told(capsys, "cancel", "--filter", "kind:welcome", code=4)
    assert out == ""
    assert err.splitlines()[1:] == [
        "cancel would concern 3 jobs that match kind:welcome",
        "  skipped: 1 cancelled (only jobs that have not ended can be cancelled)",
        "holdfast: this would cancel 3 jobs: give --yes to do it",
    ]
    assert states(left) == {"ready": 5, "cancelled": 1}


def test_with_a_yes_all_that_match_are_acted_on(left: str, capsys: Captured) -> None:
    out, err = told(capsys, "cancel", "--filter", "kind:welcome", "--yes", "--reason", "old", "--by", "ann")
    assert out == "operation 1 is done: 3 cancelled, 1 final\n"
    assert err.splitlines()[0].startswith("holdfast: database ")
    assert states(left) == {"ready": 2, "cancelled": 4}
    assert main(["audit", "list", "--json"]) == 0
    [entry, *_] = json.loads(capsys.readouterr().out)["entries"]
    assert (entry["by"], entry["reason"], entry["target"]) == ("ann", "old", "kind:welcome")


@pytest.mark.parametrize(
    ("arguments", "told_of", "stored"),
    [
        (["reprioritise", "--to", "2"], "3 changed", "select min(priority) from holdfast.ready"),
        (["move", "--to", "payments"], "3 moved", "select count(*) from holdfast.ready group by queue"),
        (["reschedule", "2h"], "3 rescheduled", "select count(*) from holdfast.scheduled"),
        (["delete"], "3 deleted", "select count(*) from holdfast.ready"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)  # fmt: skip
def test_every_verb_takes_a_filter(
    left: str, capsys: Captured, arguments: list[str], told_of: str, stored: str
) -> None:
    verb, *more = arguments
    out, _ = told(capsys, verb, *more, "--filter", "queue:mail state:ready", "--yes")
    assert told_of in out
    with psycopg.connect(left) as connection:
        [(found,)] = connection.execute(stored).fetchall()
    assert found == {"reprioritise": 2, "move": 5, "reschedule": 3, "delete": 2}[verb]


def test_all_means_those_that_the_verb_can_concern(left: str, capsys: Captured) -> None:
    out, err = told(capsys, "cancel", "--all", "--yes")
    assert out == "operation 1 is done: 5 cancelled\n"
    assert "match state:gated,ready,scheduled,waiting,running,lost" in err
    assert states(left) == {"cancelled": 6}
    _, err = told(capsys, "retry", "--all", "--yes")
    assert err.splitlines()[1:] == ["retry would concern 0 jobs that match state:failed"]


@pytest.mark.parametrize("given", [["--filter", ""], ["--filter", "  "]])
def test_an_empty_variable_of_the_shell_does_not_mean_all(
    left: str, capsys: Captured, given: list[str]
) -> None:
    out, err = told(capsys, "cancel", *given, "--yes", code=2)
    assert out == ""
    assert "the filter is empty: say which jobs, or give --all" in err
    assert main(["operations", "start", "cancel", "", "--yes"]) == 2
    assert "an operation needs a filter" in capsys.readouterr().err
    assert states(left) == {"ready": 5, "cancelled": 1}


@pytest.mark.parametrize(
    ("arguments", "told_of"),
    [
        (["cancel"], "say which jobs: give their ids, --filter or --all"),
        (["cancel", "1", "--all"], "give ids, --filter or --all, not several of them"),
        (["cancel", "--filter", "kind:a", "--all"], "give ids, --filter or --all, not several of them"),
        (["cancel", "1", "--dry-run"], "--dry-run is for --filter and --all"),
        (["cancel", "--filter", "stat:ready"], 'did you mean "state"?'),
        (["rerun", "--filter", "kind:a"], "No such option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_choice_of_jobs_says_what_is_wrong(
    left: str, capsys: Captured, arguments: list[str], told_of: str
) -> None:
    assert told_of in told(capsys, *arguments, code=2)[1]


def test_a_queue_that_nothing_knows_is_refused_for_a_filter_too(left: str, capsys: Captured) -> None:
    _, err = told(capsys, "move", "--filter", "kind:welcome", "--to", "paymentz", "--yes", code=3)
    assert 'knows the queue "paymentz"' in err
    assert states(left) == {"ready": 5, "cancelled": 1}


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_filter_with_a_name_that_nothing_has_finds_nothing(
    left: str, capsys: Captured, more: tuple[str, ...]
) -> None:
    _, err = told(capsys, "cancel", "--filter", "queue:mial", "--yes", *more, code=3)
    assert 'knows the queue "mial"; did you mean "mail"?' in err
    told(capsys, "cancel", "--filter", "queue:mail state:running", "--yes", *more)


def test_a_dry_run_changes_nothing_and_is_json_for_programs(left: str, capsys: Captured) -> None:
    _, err = told(capsys, "delete", "--filter", "kind:charge", "--dry-run")
    assert err.splitlines()[1:] == ["delete would concern 2 jobs that match kind:charge"]
    out, _ = told(capsys, "retry", "--filter", "kind:welcome", "--dry-run", "--json")
    assert json.loads(out) == {
        "eligible": 0,
        "skipped": {"ready": 3, "cancelled": 1},
        "is_capped": False,
        "rule": "only failed jobs can be retried",
        "hints": [],
    }
    out, _ = told(capsys, "cancel", "--filter", "kind:charge", "--yes", "--json")
    done: dict[str, Any] = json.loads(out)
    assert (done["state"], done["counts"], done["filter"]) == ("done", {"cancelled": 2}, "kind:charge")


def test_on_a_terminal_the_verb_has_to_be_typed(left: str) -> None:
    for typed, answered in (("y\n", "nothing was changed"), ("cancel\n", "operation 1 is done: 3 cancelled")):
        with terminal("jobs", "cancel", "--filter", "kind:welcome state:ready", columns=120) as shown:
            shown.read_until('cancel 3 jobs? Type "cancel" to do it')
            shown.type(typed)
            shown.read_until(answered)
            shown.read_to_the_end()
    assert states(left) == {"ready": 2, "cancelled": 4}


def test_an_operation_that_is_interrupted_says_that_it_goes_on_and_how_to_stop_it(left: str) -> None:
    asyncio.run(leave(left, 20_000))
    arguments = ("jobs", "cancel", "--filter", "kind:welcome", "--yes")
    with terminal(*arguments, columns=120) as shown, psycopg.connect(left) as other:
        # Held here, so that the command finds another process at it, and waits.
        block_until(lambda: bool(_hold(other)))
        shown.read_until(" jobs")
        shown.process.send_signal(signal.SIGINT)
        shown.read_to_the_end()
        assert shown.process.returncode == 130
    assert "operation 1 goes on in the leader of your workers" in shown.text
    assert "holdfast operations stop 1" in shown.text
    with psycopg.connect(left) as connection:
        assert connection.execute("select state from holdfast.operation").fetchall() == [("running",)]


def _hold(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
    try:
        return connection.execute("select id from holdfast.operation for update").fetchall()
    finally:
        if connection.info.transaction_status.name == "INERROR":
            connection.rollback()
