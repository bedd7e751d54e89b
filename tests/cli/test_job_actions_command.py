"""`holdfast jobs cancel`, `retry` and so on: what operators do from a terminal, and what they are told."""

import asyncio
import json
from typing import Any

import psycopg
import pytest

from cli.terminal import FakeTerminal
from holdfast import App, Retry, Secret
from holdfast.cli import main
from holdfast.cli.changing import operator, place_of
from holdfast.errors import JobEnded
from holdfast.postgres.schema import Schema
from support.waiting import until

Captured = pytest.CaptureFixture[str]
ONLY_FAILED = "only failed jobs can be retried or resumed"


@pytest.fixture
def left(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Job 1 has succeeded, job 2 has failed, job 3 is due later, and job 4 is ready."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)

    async def leave() -> None:
        async with App(dsn) as app:

            @app.job(queue="payments", retry=Retry(max_attempts=1))
            async def charge(order: int, card: Secret[str], note: str = "") -> str:
                if order == 13:
                    raise ValueError("refused")
                return f"receipt {order}"

            good, bad = await charge.enqueue(12, card="4111-1111"), await charge.enqueue(13, card="4222-2222")
            async with app.worker():
                await good.result("60s")
                with pytest.raises(JobEnded):
                    await bad.result("60s")
                await until(lambda: _is_known(dsn))
            await charge.using(delay="2h").enqueue(14, card="4111-1111")
            await charge.enqueue(15, card="4111-1111")

    asyncio.run(leave())
    return dsn


async def _is_known(dsn: str) -> bool:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        cursor = await connection.execute("select count(*) from holdfast.kind")
        return await cursor.fetchone() == (1,)


def told(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main(["jobs", *arguments]) == code
    return capsys.readouterr().out


def stored(dsn: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(question.encode()).fetchall()


@pytest.mark.parametrize(
    ("arguments", "sentences", "code"),
    [
        (["cancel", "4", "3"], ["job 4 is cancelled", "job 3 is cancelled"], 0),
        (["cancel", "1", "4"], ["job 1 has already ended", "job 4 is cancelled"], 1),
        (["cancel", "98", "99"], ["there is no job 98", "there is no job 99"], 3),
        (["cancel", "99", "4"], ["there is no job 99", "job 4 is cancelled"], 1),
        (["retry", "2"], ["job 2 runs again from its start, with all attempts"], 0),
        (["resume", "2"], ["job 2 continues where it stopped, with one more attempt"], 0),
        (
            ["retry", "1", "3"],
            [
                f"job 1 has succeeded: {ONLY_FAILED}; run it again as a new job with: holdfast jobs rerun 1",
                f"job 3 is scheduled: {ONLY_FAILED}",
            ],
            1,
        ),
        (["retry", "99"], ["there is no job 99"], 3),
        (["rerun", "1", "99"], ["job 1 runs again as job 5", "there is no job 99"], 1),
        (["rerun", "99", "-p", "order:=1"], ["there is no job 99"], 3),
        (["reschedule", "3", "4", "90m"], ["job 3 runs in 1h 30m", "job 4 runs in 1h 30m"], 0),
        (["reschedule", "3", "0s"], ["job 3 runs now"], 0),
        (["reschedule", "3", "2031-01-31T09:00"], ["job 3 runs at 2031-01-31 09:00:00 UTC"], 0),
        (["reschedule", "1", "2h"], ["job 1 has already ended"], 1),
        (["reprioritise", "3", "--to", "0"], ["job 3 has priority 0"], 0),
        (["move", "3", "--to", "bulk", "--create"], ['job 3 is in the queue "bulk"'], 0),
        (["delete", "1", "2", "--yes"], ["job 1 is deleted", "job 2 is deleted"], 0),
        (["delete", "99", "--yes"], ["there is no job 99"], 3),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_each_job_is_answered_in_a_sentence(
    left: str, arguments: list[str], sentences: list[str], code: int, capsys: Captured
) -> None:
    assert told(capsys, *arguments, code=code).splitlines() == sentences


def test_json_has_a_word_for_each_job(left: str, capsys: Captured) -> None:
    answers = json.loads(told(capsys, "retry", "2", "3", "99", "--json", code=1))
    assert [(each["job"], each["answer"]) for each in answers] == [
        (2, "retried"),
        (3, "not_failed"),
        (99, "unknown"),
    ]
    assert json.loads(told(capsys, "rerun", "1", "--json")) == [
        {"job": 1, "answer": "enqueued", "sentence": "job 1 runs again as job 5", "new_job": 5}
    ]


def test_the_audit_tells_who_did_it_and_why(left: str, capsys: Captured) -> None:
    told(capsys, "cancel", "3", "--reason", "wrong price", "--by", "ann")
    told(capsys, "reprioritise", "4", "--to", "9")
    told(capsys, "delete", "1", "--yes", "--reason", "asked to be forgotten")
    assert stored(left, "select action, by, target, reason from holdfast.audit order by id") == [
        ("cancel", "ann", "job 3", "wrong price"),
        ("reprioritise to 9", operator(), "job 4", None),
        ("delete", operator(), "job 1", "asked to be forgotten"),
    ]


def test_the_database_is_named_on_stderr_before_a_change(left: str, capsys: Captured) -> None:
    assert main(["jobs", "cancel", "3"]) == 0
    assert capsys.readouterr().err == f"holdfast: {place_of(left, Schema())}\n"


@pytest.mark.parametrize(
    ("dsn", "place"),
    [
        ("postgresql://ann:hidden@db-1:6432/shop", "database shop on db-1:6432"),
        ("host=db-1 dbname=shop password=hidden", "database shop on db-1:5432"),
        ("postgresql://ann:hidden@db-1,db-2/shop", "database shop on db-1:5432,db-2:5432"),
        ("embedded:/srv/data", "the private Postgres in /srv/data"),
    ],
)
def test_a_place_is_a_host_and_a_database_without_a_password(
    dsn: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGPORT", "PGHOST", "PGDATABASE", "PGHOSTADDR"):
        monkeypatch.delenv(name, raising=False)
    assert place_of(dsn, Schema()) == place
    assert place_of(dsn, Schema("jobs")) == f"{place}, schema jobs"


def test_what_the_connection_string_leaves_open_is_read_as_libpq_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGHOST", "db-2")
    monkeypatch.setenv("PGDATABASE", "billing")
    monkeypatch.setenv("PGPORT", "5433")
    assert place_of("postgresql://", Schema()) == "database billing on db-2:5433"


def test_edited_arguments_keep_the_others_and_the_secrets(left: str, capsys: Captured) -> None:
    text = told(capsys, "rerun", "2", "-p", "note=second try", "-p", "order:=14")
    assert "4222" not in text
    assert stored(left, "select args from holdfast.job where id = 5") == [
        ({"order": 14, "card": "4222-2222", "note": "second try"},)
    ]
    told(capsys, "rerun", "2", "-p", "card=4333")
    assert stored(left, "select args->>'card' from holdfast.job where id = 6") == [("4333",)]


def test_arguments_of_a_kind_whose_secrets_are_unknown_cannot_be_edited(left: str, capsys: Captured) -> None:
    stored(left, "delete from holdfast.kind returning name")
    assert main(["jobs", "rerun", "1", "2", "-p", "order:=14"]) == 2
    assert 'what is secret in "charge"' in capsys.readouterr().err
    assert stored(left, "select count(*) from holdfast.job") == [(4,)]
    assert told(capsys, "rerun", "1") == "job 1 runs again as job 5\n"


@pytest.mark.parametrize(
    "arguments",
    [["delete", "1"], ["cancel", *map(str, range(1, 12))], ["retry", *map(str, range(1, 12))]],
    ids=["delete", "cancel of 11", "retry of 11"],
)
def test_without_a_terminal_a_destructive_change_needs_yes(
    left: str, arguments: list[str], capsys: Captured
) -> None:
    assert main(["jobs", *arguments]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[1].endswith(": give --yes to do it")
    assert stored(left, "select count(*) from holdfast.audit") == [(0,)]


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 4), ("", 4)])
def test_on_a_terminal_it_asks(
    left: str, typed: str, code: int, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", FakeTerminal(f"{typed}\n"))
    assert main(["jobs", "delete", "1"]) == code
    assert "delete job 1? [y/N]" in capsys.readouterr().err
    assert stored(left, "select count(*) from holdfast.job where id = 1") == [(int(code != 0),)]


def test_a_job_is_not_moved_to_a_queue_that_nothing_knows(left: str, capsys: Captured) -> None:
    assert main(["jobs", "move", "3", "--to", "paymnets"]) == 3
    assert 'did you mean "payments"?' in capsys.readouterr().err
    assert stored(left, "select queue from holdfast.job where id = 3") == [("payments",)]


@pytest.mark.parametrize(
    ("arguments", "told_of"),
    [
        (["cancel"], "say which jobs: give their ids, --filter or --all"),
        (["cancel", "x"], "'x' is not a valid integer (see"),
        (["cancel", "0"], "0 is not in the range"),
        (["cancel", "99999999999999999999"], "not a job id"),
        (["cancel", "1", "--by", " "], "say who does it"),
        (["reschedule", "1", "soon"], "or a length from now such as 2h"),
        (["reschedule", "2h"], "say which jobs: give their ids, --filter or --all"),
        (["reprioritise", "1", "--to", "10"], "10 is not in the range 0<=x<=9"),
        (["reprioritise", "1"], "Missing option '--to'"),
        (["move", "1"], "Missing option '--to'"),
        (["move", "1", "--to", "", "--create"], "queue '' must be text"),
        (["rerun", "1", "-p", "order"], "write name=value for text"),
        (["rerun", "1", "-p", "order:=[1"], "is not JSON"),
        (["rerun", "1", "-p", "order:=hidden"], "is not JSON"),
        (["rerun", "1", "-p", "order=1", "-p", "order=2"], '"order" is given twice'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(left: str, arguments: list[str], told_of: str, capsys: Captured) -> None:
    assert main(["jobs", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told_of in err.splitlines()[-1]
    assert "hidden" not in err
    assert stored(left, "select count(*) from holdfast.audit") == [(0,)]
