"""`holdfast flows`: what operators read and do, on a database that a worker has left."""

import asyncio
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from cli.processes import command
from flows.fast_worker import until_state, working
from holdfast import App, Done, Flow, Machine, Next, Retry, Step
from holdfast.cli import main

Captured = pytest.CaptureFixture[str]


@dataclass
class Left:
    """The ids of what a worker has left: an order that waits, one that failed, and an import that failed."""

    dsn: str
    waiting: int = 0
    failed: int = 0
    machine: int = 0

    def state(self, flow: int) -> str:
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute("select state from holdfast.jobs where id = %s", [flow]).fetchone()
            assert row
            return str(row[0])


@pytest.fixture
def left(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Left:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    left = Left(dsn)

    async def leave() -> None:
        async with App(dsn) as app:

            @app.job
            async def mail(to: str) -> str:
                return f"sent to {to}"

            async def reserve(number: int) -> dict[str, int]:
                return {"reserved": number}

            async def charge() -> None:
                raise ConnectionError("the payment service refused the connection, as it does every night")

            @app.flow(retry=Retry(max_attempts=1))
            async def order(flow: Flow, number: int) -> str:
                await flow.step("reserve", reserve, number)
                if number == 2:
                    await flow.gather(*(flow.call(mail, str(n)) for n in range(10)))
                    await flow.step("charge", charge, retry=Retry(max_attempts=3, backoff="1ms"))
                await flow.wait_event(f"packed:{number}", timeout="7 days")
                return "shipped"

            @app.machine
            class Import(Machine[int]):
                class Download(Step):
                    url: str

                    async def run(self) -> Next:
                        return Next(Import.Parse("a.csv"))

                class Parse(Step, retry=Retry(max_attempts=2, backoff="1ms")):
                    path: str

                    async def run(self) -> Done[int]:
                        raise ValueError("line 7 has 3 columns")

            async with working(app):
                left.waiting = (await order.enqueue(1)).id
                left.failed = (await order.enqueue(2)).id
                left.machine = (await Import.enqueue(Import.Download("https://example.org"))).id
                await until_state(app, left.waiting, "waiting")
                await until_state(app, left.failed, "failed")
                await until_state(app, left.machine, "failed")

    asyncio.run(leave())
    return left


def answer(capsys: Captured, *arguments: str) -> Any:
    assert main(["flows", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def lines(capsys: Captured, *arguments: str) -> list[str]:
    assert main(["flows", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_flows_are_listed_newest_first_by_state_and_kind(left: Left, capsys: Captured) -> None:
    everything = answer(capsys, "list")
    assert [flow["id"] for flow in everything] == [left.machine, left.failed, left.waiting]
    assert [flow["step"] for flow in everything] == ["Parse", "charge", "packed:1"]
    assert [flow["id"] for flow in answer(capsys, "list", "--state", "failed", "-n", "1")] == [left.machine]
    assert [flow["id"] for flow in answer(capsys, "list", "--before", str(left.failed))] == [left.waiting]
    assert answer(capsys, "list", "--kind", "mail", "--state", "ready") == []
    heads, *rows = lines(capsys, "list")
    assert heads.split() == ["ID", "KIND", "STATE", "DONE", "STEP", "NEXT", "CREATED", "ERROR"]
    assert "ValueError: line 7 has 3 columns" in rows[0]
    assert "packed:1" in rows[2]
    assert "for packed:1, else in 6d 23h" in rows[2]
    assert lines(capsys, "list", "--state", "expired") == ["no flow matches"]


def test_a_flow_is_shown_with_steps_waits_children_and_history(left: Left, capsys: Captured) -> None:
    facts = answer(capsys, "show", str(left.failed))
    assert (facts["state"], facts["args"], facts["is_machine"]) == ("failed", {"number": 2}, False)
    assert {step["kind"] for step in facts["steps"]} == {"step", "call"}
    assert facts["steps"][-1]["failures"] == 3
    assert [run["outcome"] for run in facts["history"]][-3:] == ["retried", "retried", "failed"]
    text = "\n".join(lines(capsys, "show", str(left.waiting)))
    assert 'waits     for event "packed:1", until ' in text
    assert '{"reserved": 1}' in text
    text = "\n".join(lines(capsys, "show", str(left.machine)))
    assert "type      state machine" in text
    assert "moved to Parse" in text
    assert "✕ failed" in text


def test_a_payload_that_was_refused_is_shown_with_the_reason_and_what_to_do(
    dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)

    async def leave() -> int:
        async with App(dsn) as app:

            @app.flow
            async def order(flow: Flow) -> int:
                return await flow.wait_event("packed", type=int)

            await app.emit("packed", "three")
            async with working(app):
                flow = (await order.enqueue()).id
                await until_state(app, flow, "waiting")
                return flow

    flow = asyncio.run(leave())
    text = "\n".join(lines(capsys, "show", str(flow)))
    assert 'waits     for event "packed"' in text
    assert 'error     the payload of event "packed" does not fit its type: expected int, got str' in text
    assert "Send one that fits: holdfast flows emit packed JSON" in text
    [summary] = answer(capsys, "list")
    assert (summary["waits_for"], summary["until"]) == ("packed", None), "not when it is looked at again"
    listed = lines(capsys, "list")[1]
    assert 'the payload of event "packed" does not fit' in listed
    assert "for packed " in listed
    assert " in " not in listed.split("the payload")[0]
    assert answer(capsys, "show", str(flow))["steps"][0]["value"] == "three"


def test_the_way_of_a_flow_is_drawn(left: Left, capsys: Captured) -> None:
    drawn = lines(capsys, "show", str(left.failed), "--graph")
    assert drawn[0] == f"order {left.failed}  ✕ failed"
    assert drawn[2] == '✓ reserve  done: {"reserved": 2}'
    assert sum(line.startswith("├── ✓ mail[") for line in drawn) == 8
    assert "├── … and 2 more, 2 of them done" in drawn
    assert drawn[-1].startswith("✕ charge   failed, 3 tries: ConnectionError: the payment service")
    assert lines(capsys, "show", str(left.machine), "--graph")[1:] == [
        "│",
        '✓ Download  done: {"url": "https://example.org"}',
        "│",
        "✕ Parse     failed, 2 tries: ValueError: line 7 has 3 columns",
    ]


def test_the_drawing_is_broken_between_words(left: Left) -> None:
    def words(columns: int) -> list[str]:
        text = re.sub(
            r"\x1b\[[0-9;]*m", "", in_terminal(columns, "flows", "show", str(left.failed), "--graph")
        )
        assert max(map(len, text.splitlines())) <= columns, text
        return [word for word in text.split() if word != "│"]

    assert words(40) == words(300)


@pytest.mark.parametrize("columns", [80, 120])
def test_nothing_but_sentences_is_wider_than_the_terminal(left: Left, columns: int) -> None:
    for arguments in (["list"], ["show", str(left.failed), "--graph"], ["show", str(left.waiting)]):
        text = in_terminal(columns, "flows", *arguments)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
        assert max(map(len, plain.splitlines())) <= columns, plain


def in_terminal(columns: int, *arguments: str, typed: bytes = b"") -> str:
    leader, follower = pty.openpty()
    os.write(leader, typed)
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(
        command(*arguments), stdin=follower, stdout=follower, stderr=follower, env=environment
    ):
        os.close(follower)
        written = b""
        try:
            while read := os.read(leader, 65536):
                written += read
        except OSError:  # how a pseudo-terminal tells its end
            pass
    os.close(leader)
    return written.decode()


def test_operators_resume_retry_cancel_and_send_events(left: Left, capsys: Captured) -> None:
    assert lines(capsys, "resume", str(left.failed)) == [f"flow {left.failed} continues where it stopped"]
    assert left.state(left.failed) == "ready"
    assert answer(capsys, "retry", str(left.machine), "--from", "Download", "--yes") == {
        "retried": left.machine,
        "from": "Download",
    }
    assert [step["name"] for step in answer(capsys, "show", str(left.machine))["steps"]] == ["Download"]
    assert lines(capsys, "cancel", str(left.machine), "--reason", "old") == [
        f"flow {left.machine} is cancelled"
    ]
    assert answer(capsys, "cancel", str(left.machine))["answer"] == "final"
    assert answer(capsys, "emit", "packed:1", '{"by": "eve"}') == {"emitted": "packed:1"}
    with psycopg.connect(left.dsn) as connection:
        assert connection.execute("select key, payload from holdfast.event").fetchall() == [
            ("packed:1", {"by": "eve"})
        ]


def test_done_steps_are_forgotten_only_when_the_operator_says_so(left: Left, capsys: Captured) -> None:
    assert main(["flows", "retry", str(left.failed)]) == 4
    where, refused = capsys.readouterr().err.splitlines(keepends=True)
    assert where.startswith("holdfast: database ")
    assert refused == (
        f"holdfast: flow {left.failed} would discard the results of 11 finished steps and run them again: "
        "give --yes to do it\n"
    )
    assert main(["flows", "retry", str(left.machine), "--from", "Download", "--json"]) == 4
    assert 'would discard the result of step "Download"' in capsys.readouterr().err
    assert "nothing was changed" in in_terminal(200, "flows", "retry", str(left.failed), typed=b"n\n")
    assert left.state(left.failed) == left.state(left.machine) == "failed"
    said = in_terminal(200, "flows", "retry", str(left.failed), "--from", "mail[3]", typed=b"y\n")
    assert f"flow {left.failed} will discard the result" in said
    assert 'continues from step "mail[3]"' in said
    assert left.state(left.failed) == "ready"
    assert lines(capsys, "retry", str(left.machine), "--from", "Parse") == [
        f'flow {left.machine} continues from step "Parse"'
    ]


def test_a_plain_job_is_refused_with_what_to_use_for_jobs(left: Left, capsys: Captured) -> None:
    child = next(step["child"] for step in answer(capsys, "show", str(left.failed))["steps"] if step["child"])
    for verb in ("show", "resume", "retry", "cancel"):
        assert main(["flows", verb, str(child)]) == 3
        told = capsys.readouterr().err
        assert f'job {child} of kind "mail" is not a flow' in told
        assert 'for a job use "holdfast jobs ' in told


def test_what_cannot_be_done_is_said_with_an_exit_code(left: Left, capsys: Captured) -> None:
    assert main(["flows", "show", "999999"]) == 3
    assert main(["flows", "retry", str(left.failed), "--from", "ship"]) == 3
    assert 'has not done a step "ship", it has done reserve' in capsys.readouterr().err
    assert main(["flows", "resume", str(left.waiting)]) == 1
    assert "is waiting: only a failed flow" in capsys.readouterr().err
    assert main(["flows", "emit", "packed:1", "{by: eve}"]) == 2
    assert "is not JSON" in capsys.readouterr().err
    assert main(["flows", "emit", "packed:1", "NaN"]) == 2
    assert "NaN or infinity" in capsys.readouterr().err
    for wrong in (["emit", ""], ["emit", "packed:1", "--keep", "0s"], ["emit", "packed:1", "--keep", "soon"]):
        assert main(["flows", *wrong]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert left.state(left.failed) == "failed"
