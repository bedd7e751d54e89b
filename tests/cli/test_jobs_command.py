"""`holdfast jobs`: what operators read, on a database that a worker has left."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from holdfast import App, Retry, Secret
from holdfast.cli import main
from holdfast.errors import JobEnded
from support.waiting import until

Captured = pytest.CaptureFixture[str]

LIST = """\
ID  KIND     STATE        QUEUE     TRY  CREATED     WHEN              ARGS                               ERROR
3   welcome  ◷ scheduled  mail           5m 30s ago  in 1h 30m         {"user": 7}
2   charge   ✕ failed     payments  1/1  5m 30s ago  ended 5m 25s ago  {"order": 13, "card": "[secret]"}  ValueError: the bank refused [secret]
1   charge   ✓ succeeded  payments  1/1  5m 30s ago  ended 5m 25s ago  {"order": 12, "card": "[secret]"}
"""  # noqa: E501  # as wide as it is printed
SHOWN = """\
charge 2  ✕ failed
  now       It failed 5m 25s ago: ValueError: the bank refused [secret]. Run it again with: holdfast jobs retry 2
  queue     payments, priority 5
  args      {"order": 13, "card": "[secret]"}
"""  # noqa: E501  # as wide as it is printed


@pytest.fixture
def left(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A receipt, a refused card, and a welcome that is due later, all of a fixed age."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)

    async def leave() -> None:
        async with App(dsn) as app:

            @app.job(queue="payments", retry=Retry(max_attempts=1))
            async def charge(order: int, card: Secret[str]) -> str:
                if order == 13:
                    raise ValueError(f"the bank refused {card}")
                return f"receipt {order}"

            @app.job(queue="mail", tags=["vip"])
            async def welcome(user: int) -> None: ...

            handles = [await charge.enqueue(12, card="4111-1111"), await charge.enqueue(13, card="4111-1111")]
            await welcome.using(delay="2h").enqueue(7)
            async with app.worker():
                for handle in handles:
                    with suppress(JobEnded):
                        await handle.result("60s")
                await until(lambda: _is_known(dsn))

    asyncio.run(leave())
    with psycopg.connect(dsn, autocommit=True) as connection:
        # Half a second of room before the next whole one, for what the test itself takes.
        connection.execute("update holdfast.job set created_at = now() - interval '5m 30s'")
        connection.execute("update holdfast.scheduled set run_at = now() + interval '1h 30m 50s'")
        connection.execute(
            "update holdfast.ledger set ready_at = now() - interval '5m 30s',"
            " started_at = now() - interval '5m 28s', finished_at = now() - interval '5m 25s'"
        )
    return dsn


async def _is_known(dsn: str) -> bool:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        cursor = await connection.execute("select count(*) from holdfast.kind")
        return await cursor.fetchone() == (2,)


def told(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    return capsys.readouterr().out


def told_json(capsys: Captured, *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--json"))


def test_a_list_is_whole_and_without_colour_when_it_is_piped(left: str, capsys: Captured) -> None:
    assert told(capsys, "jobs", "list") == LIST


def test_a_filter_may_come_in_several_arguments_whose_quotes_the_shell_took(
    left: str, capsys: Captured
) -> None:
    for terms in (
        ["state:failed", "error:the bank"],
        ['state:failed error:"the bank"'],
        ["error:the bank refused"],
    ):
        assert [line.split()[0] for line in told(capsys, "jobs", "list", *terms).splitlines()] == ["ID", "2"]


def test_a_wrong_filter_is_marked_where_it_is_wrong(left: str, capsys: Captured) -> None:
    assert main(["jobs", "list", "kind:charge", "stat:failed"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        'holdfast: a filter has no word "stat"; did you mean "state"?',
        "  kind:charge stat:failed",
        "              ^^^^",
    ]


def test_nothing_that_matches_is_another_answer_than_nothing_at_all(
    left: str, dsn: str, capsys: Captured
) -> None:
    assert told(capsys, "jobs", "list", "kind:nothing") == "no job matches this filter\n"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("truncate holdfast.job, holdfast.ledger, holdfast.scheduled, holdfast.dead")
    assert told(capsys, "jobs", "list") == "there are no jobs: enqueue one\n"


def test_pages_of_a_list_go_on_at_its_cursor(left: str, capsys: Captured) -> None:
    first = told_json(capsys, "jobs", "list", "-n", "2")
    assert [job["id"] for job in first["jobs"]] == [3, 2]
    second = told_json(capsys, "jobs", "list", "-n", "2", "--after", first["next"])
    assert [job["id"] for job in second["jobs"]] == [1]
    assert (second["next"], second["searched"]) == (None, None)
    assert main(["jobs", "list", "-n", "2"]) == 0
    assert capsys.readouterr().err == f"more: --after {first['next']}\n"


def test_one_job_is_shown_with_its_runs_and_its_traceback(left: str, capsys: Captured) -> None:
    text = told(capsys, "jobs", "show", "2")
    assert text.startswith(SHOWN)
    assert "1    failed   " in text
    assert "2s      3s" in text, "how long it waited, and how long it took"
    assert 'raise ValueError(f"the bank refused {card}")' in text
    assert "4111" not in text
    facts = told_json(capsys, "jobs", "show", "2")
    assert facts["args"] == {"order": 13, "card": "[secret]"}
    assert [run["outcome"] for run in facts["runs"]] == ["failed"]
    assert any(frame["is_own"] for frame in facts["runs"][0]["error"]["frames"])
    assert "4111" not in json.dumps(facts)
    assert main(["jobs", "show", "99"]) == 3


def test_a_job_is_explained_in_a_sentence_and_an_advice(left: str, capsys: Captured) -> None:
    text = told(capsys, "jobs", "explain", "3")
    assert text.startswith("It is to run at ")
    assert text.endswith(", in 1h 30m.\n")
    assert told_json(capsys, "jobs", "explain", "99")["reason"] == "unknown_id"
    assert told(capsys, "jobs", "explain", "2").splitlines()[1] == "Run it again with: holdfast jobs retry 2"
