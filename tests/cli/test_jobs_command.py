"""`holdfast jobs`: what operators read, on a database that a worker has left."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cli.terminal import terminal
from holdfast import App, Retry, Secret
from holdfast.cli import main
from holdfast.errors import JobEnded
from support.waiting import until

Captured = pytest.CaptureFixture[str]

LIST = """\
ID  KIND     STATE        QUEUE     TRY  CREATED     WHEN              ARGS                               ERROR
3   welcome  ◷ scheduled  mail           5h 30m ago  in 1h 30m         {"user": 7}
2   charge   ✕ failed     payments  1/1  5h 30m ago  ended 5h 25m ago  {"order": 13, "card": "[secret]"}  ValueError: the bank refused [secret]
1   charge   ✓ succeeded  payments  1/1  5h 30m ago  ended 5h 25m ago  {"order": 12, "card": "[secret]"}
"""  # noqa: E501  # as wide as it is printed
SHOWN = """\
charge 2  ✕ failed
  now       It failed 5h 25m ago: ValueError: the bank refused [secret]. Run it again with: holdfast jobs retry 2
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
        # Most of a minute of room before the next whole one, for what the test itself takes.
        connection.execute("update holdfast.job set created_at = now() - interval '5h 30m 5s'")
        connection.execute("update holdfast.scheduled set run_at = now() + interval '1h 30m 50s'")
        connection.execute(
            "update holdfast.ledger set ready_at = now() - interval '5h 25m 10s',"
            " started_at = now() - interval '5h 25m 8s', finished_at = now() - interval '5h 25m 5s'"
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


def test_a_value_without_quotes_does_not_swallow_the_terms_behind_it(left: str, capsys: Captured) -> None:
    assert main(["jobs", "list", "error:bank refused state:failed"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith('a value that holds a space needs quotes: error:"bank refused"')
    assert lines[1:3] == ["  error:bank refused state:failed", "             ^^^^^^^"]
    assert main(["jobs", "list", "kind:charge AND state:failed"]) == 2
    assert "leave it out" in capsys.readouterr().err
    told(capsys, "jobs", "list", "error:HTTP error: 502", "state:failed")  # its second colon begins no term


def test_an_explanation_is_broken_between_words_on_a_terminal(left: str) -> None:
    with terminal("jobs", "explain", "2", columns=40) as shown:
        shown.read_to_the_end()
    assert max(map(len, shown.lines)) <= 40
    sentence = "It failed 5h 25m ago: ValueError: the bank refused [secret]."
    assert " ".join(shown.lines).split() == f"{sentence} Run it again with: holdfast jobs retry 2".split(" ")


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
    assert told(capsys, "jobs", "list", "kind:nothing").splitlines() == [
        "no job matches this filter",
        'no worker has declared a kind "nothing"',
    ]
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


def test_a_list_may_be_a_json_value_in_each_line(left: str, capsys: Captured) -> None:
    lines = [json.loads(line) for line in told(capsys, "jobs", "list", "-o", "jsonl").splitlines()]
    whole = told_json(capsys, "jobs", "list")
    assert lines == whole["jobs"]
    assert json.loads(told(capsys, "jobs", "list", "-o", "json")) == whole
    assert told(capsys, "jobs", "list", "-o", "table") == LIST
    assert main(["jobs", "list", "-o", "jsonl", "-n", "1"]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert err.startswith("more: --after ")
    assert told(capsys, "jobs", "list", "kind:nothing", "-o", "jsonl") == ""


def test_the_json_of_a_list_has_these_names(left: str, capsys: Captured) -> None:
    """Programs rely on them: a name may be added, none may go."""
    page = told_json(capsys, "jobs", "list")
    assert set(page) >= {"jobs", "next", "searched"}
    assert set(page["jobs"][0]) >= {
        "id", "kind", "queue", "state", "priority", "attempt", "max_attempts", "args", "args_size", "tags",
        "parent", "worker", "created_at", "run_at", "ready_at", "started_at", "finished_at", "deadline_at",
        "cancel_requested_at", "is_parked", "error", "flag",
    }  # fmt: skip
    assert page["jobs"][1]["error"] == {
        "code": "handler_error",
        "type": "ValueError",
        "message": "the bank refused [secret]",
    }


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


def test_an_empty_list_of_a_private_server_says_which_one_it_is(tmp_path: Path, capsys: Captured) -> None:
    assert main(["jobs", "list", "--dsn", f"embedded:{tmp_path}/pg"]) == 0
    out, err = capsys.readouterr()
    assert out == "there are no jobs: enqueue one\n"
    assert err == f"holdfast: this is the private Postgres in {tmp_path.resolve()}/pg\n"


def test_show_says_why_all_arguments_are_masked(dsn: str, capsys: Captured) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("""select holdfast.enqueue('fresh', '{"order": 4711}')""")
    assert main(["jobs", "show", "1", "--dsn", dsn]) == 0
    shown = capsys.readouterr().out
    assert "  args      [secret]: all of them, until a worker has declared this kind" in shown
    assert "4711" not in shown
