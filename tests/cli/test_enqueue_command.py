"""`holdfast enqueue`: jobs by the name of their kind, from a terminal."""

import asyncio
import json
from typing import Any

import psycopg
import pytest

from holdfast import App, Retry, Secret
from holdfast.cli import main
from support.stored_kinds import store_kinds

Captured = pytest.CaptureFixture[str]


def shop(dsn: str) -> App:
    app = App(dsn)

    @app.job(queue="payments", retry=Retry(max_attempts=1), timeout="9m")
    async def charge(order: int, card: Secret[str], note: str = "") -> str:
        if order == 13:
            raise ValueError(f"the bank refused {card}")
        return f"receipt {order}"

    @app.job
    async def token(user: str) -> Secret[str]:
        return f"token of {user}"

    @app.job(keep="0s")
    async def forgotten() -> None: ...

    return app


@pytest.fixture
def known(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)

    async def store() -> None:
        async with shop(dsn) as app:
            await store_kinds(app)

    asyncio.run(store())
    return dsn


def stored(dsn: str, question: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        return connection.execute(question.encode()).fetchall()


def test_a_job_is_enqueued_with_text_and_json(known: str, capsys: Captured) -> None:
    assert main(["enqueue", "charge", "-p", "order:=12", "-p", "card=4111-1111", "-p", "note=a=b:=c"]) == 0
    out, err = capsys.readouterr()
    assert out == "job 1 is enqueued\n"
    assert "holdfast: warning: No worker is running. Start one with: holdfast worker -A …" in err
    assert "4111" not in out + err
    assert stored(known, "select kind, queue, max_attempts, args from holdfast.job") == [
        ("charge", "payments", 1, {"order": 12, "card": "4111-1111", "note": "a=b:=c"})
    ]


def test_options_choose_queue_time_priority_key_and_tags(known: str, capsys: Captured) -> None:
    given = ["enqueue", "charge", "-p", "order:=1", "-p", "card=4111", "--unique-key", "one", "--json"]
    options = ["--queue", "bulk", "--at", "2031-01-31T09:00", "--priority", "0", "--tag", "a", "--tag", "b"]
    assert main([*given, *options]) == 0
    assert json.loads(capsys.readouterr().out) == {"job": 1, "is_new": True}
    assert stored(known, "select queue, priority, tags, run_at::text from holdfast.jobs") == [
        ("bulk", 0, ["a", "b"], "2031-01-31 09:00:00+00")
    ]
    assert main([*given[:-1], "--queue", "bulk"]) == 0
    assert capsys.readouterr().out == "job 1 has this unique key: nothing was enqueued\n"
    assert main([*given[:6], "--in", "2h"]) == 0
    assert stored(known, "select state::text from holdfast.jobs where queue = 'payments'") == [("scheduled",)]


async def told_by_a_worker(dsn: str, capsys: Captured, *arguments: str) -> tuple[int, str, str]:
    async with shop(dsn) as app, app.worker():
        code = await asyncio.to_thread(main, ["enqueue", *arguments])
    out, err = capsys.readouterr()
    return code, out, err


async def test_wait_prints_the_result(dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    async with shop(dsn) as app:
        await store_kinds(app)
    charge = ("charge", "-p", "card=4111-1111", "--wait")
    code, out, err = await told_by_a_worker(dsn, capsys, *charge, "-p", "order:=12")
    assert (code, out) == (0, '"receipt 12"\n')
    assert "job 1 is enqueued" in err
    code, out, err = await told_by_a_worker(dsn, capsys, *charge, "-p", "order:=13")
    assert (code, out) == (1, "")
    assert err.endswith("holdfast: job 2 failed: ValueError: the bank refused [secret]\n")
    code, out, _ = await told_by_a_worker(dsn, capsys, *charge, "-p", "order:=13", "--json")
    facts = json.loads(out)
    assert (code, facts["state"], facts["error"]["type"]) == (1, "failed", "ValueError")
    code, out, _ = await told_by_a_worker(dsn, capsys, "token", "-p", "user=ann", "--wait")
    assert (code, out) == (0, '"[secret]"\n')
    code, out, err = await told_by_a_worker(dsn, capsys, "forgotten", "--wait")
    assert (code, out) == (1, "")
    assert "was not kept: how it ended is not known" in err


def test_a_kind_that_no_worker_has_declared_needs_force(known: str, capsys: Captured) -> None:
    assert main(["enqueue", "chrage"]) == 3
    assert 'did you mean "charge"?' in capsys.readouterr().err
    assert main(["enqueue", "chrage", "--force", "-p", "any:=[1]"]) == 0
    assert capsys.readouterr().out == "job 1 is enqueued\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "Missing argument 'KIND'"),
        (["charge"], '"order", "card" must be given; it takes order, card, note'),
        (["charge", "-p", "order=1", "-p", "card=hidden"], "write order:=… in place of order=…"),
        (["charge", "-p", "order:=x"], 'what follows "order:=" is not JSON'),
        (["charge", "-p", "order:=1", "-p", "card:=5"], "it must be text, not a whole number"),
        (["charge", "-p", "ordre:=1"], 'it has no parameter "ordre" (did you mean "order"?)'),
        (["charge", "--in", "soon"], "is not a length of time"),
        (["charge", "--at", "soon"], "'soon' is not a time"),
        (["charge", "--priority", "10"], "10 is not in the range"),
        (
            ["charge", "-p", "order:=1", "-p", "card=hidden", "--in", "1h", "--at", "2031-01-01"],
            "a delay or a time, not both",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(known: str, arguments: list[str], problem: str, capsys: Captured) -> None:
    assert main(["enqueue", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert problem in err.splitlines()[-1]
    assert "hidden" not in err
    assert stored(known, "select count(*) from holdfast.job") == [(0,)]
