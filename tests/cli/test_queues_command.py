"""`holdfast queues`: what operators read of queues, and do with them."""

import asyncio
import json
from typing import Any

import pytest

from cli.terminal import terminal
from holdfast import App
from holdfast.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def left(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two jobs that wait in one queue."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)

    async def leave() -> None:
        async with App(dsn) as app:

            @app.job(queue="mail")
            async def welcome(user: int) -> None: ...

            await app.enqueue_many(welcome.call(n) for n in range(2))

    asyncio.run(leave())
    return dsn


def told(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    return capsys.readouterr().out


def told_json(capsys: Captured, *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--json"))


def test_queues_are_listed_with_what_waits(left: str, capsys: Captured) -> None:
    heads, row = told(capsys, "queues", "list").splitlines()
    assert heads.split() == ["QUEUE", "WAITING", "OLDEST", "RUNNING", "WORKERS", "STATE"]
    assert (row.split()[:2], row.endswith("no worker")) == (["mail", "2"], True)
    [queue] = told_json(capsys, "queues", "list")
    assert (queue["name"], queue["waiting"], queue["workers"]) == ("mail", 2, 0)


def test_a_queue_is_paused_with_a_note_and_resumed(left: str, capsys: Captured) -> None:
    text = told(capsys, "queues", "pause", "mail", "--note", "provider down", "--until", "2h")
    assert text.startswith('queue "mail" is paused until 20')
    assert text.endswith("resume it with: holdfast queues resume mail\n")
    assert "‖ paused until 20" in told(capsys, "queues", "list")
    with terminal("queues", "list") as shown:
        assert "‖ paused for another 1h 59m: provider down" in shown.read_to_the_end()
    assert 7000 < told_json(capsys, "queues", "list")[0]["pause_left"] < 7200
    assert told_json(capsys, "queues", "list")[0]["note"] == "provider down"
    assert (
        told(capsys, "jobs", "explain", "1").splitlines()[1] == "Resume it with: holdfast queues resume mail"
    )
    assert told(capsys, "queues", "resume", "mail", "--by", "ann") == 'queue "mail" is resumed\n'
    entries = told_json(capsys, "audit")
    listed = entries["entries"] if isinstance(entries, dict) else entries
    assert [(each["action"], each["target"]) for each in listed] == [
        ("resume queue", "mail"),
        ("pause queue", "mail"),
    ]
    assert (listed[0]["by"], listed[1]["reason"]) == ("ann", "provider down")
    assert told_json(capsys, "queues", "resume", "mail") == {"queue": "mail", "was_paused": False}


def test_an_unknown_queue_is_refused_unless_it_is_to_be_created(left: str, capsys: Captured) -> None:
    assert main(["queues", "pause", "mial"]) == 3
    assert 'did you mean "mail"?' in capsys.readouterr().err
    assert told(capsys, "queues", "pause", "later", "--create").startswith('queue "later" is paused;')
    assert main(["queues", "pause", "mail", "--until", "soon"]) == 2


def test_a_database_without_queues_says_so(dsn: str, capsys: Captured) -> None:
    assert (
        told(capsys, "queues", "list", "--dsn", dsn)
        == "there are no queues: enqueue a job, or start a worker\n"
    )
