"""`holdfast failures`: groups as a table and as JSON, a question before a group is retried or purged."""

import asyncio
import json
import re
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from holdfast import App, Retry
from holdfast.cli import main
from holdfast.errors import JobEnded
from holdfast.storage.failures import fold_failures

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def failed(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three jobs that failed alike, two that failed otherwise; the fingerprint of the three."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)

    async def fail() -> str:
        async with App(dsn) as app:

            @app.job(queue="money", retry=Retry(max_attempts=1))
            async def charge(order: int) -> None:
                raise ValueError(f"order {order} refused")

            @app.job(queue="mail", retry=Retry(max_attempts=1))
            async def remind(order: int) -> None:
                raise KeyError(order)

            async with app.worker():
                for call in (
                    charge.call(1),
                    charge.call(22),
                    charge.call(333),
                    remind.call(1),
                    remind.call(2),
                ):
                    [handle] = await app.enqueue_many([call])
                    with suppress(JobEnded):
                        await handle.result("60s")
            await app.run(fold_failures(app.schema))
            [group] = (await app.failures.list(kind="charge")).groups
            return group.fingerprint

    return asyncio.run(fail())


def told(capsys: Captured, *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(arguments) == code
    return capsys.readouterr().out


def told_json(capsys: Captured, *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--json"))


def states(capsys: Captured) -> list[str]:
    return sorted(job["state"] for job in told_json(capsys, "jobs", "list")["jobs"])


def test_groups_are_listed(failed: str, capsys: Captured) -> None:
    lines = told(capsys, "failures", "list").splitlines()
    assert re.split(r"\s{2,}", lines[0]) == [
        *("FINGERPRINT", "1H", "24H", "7D", "LAST", "FIRST", "KINDS", "FAILURE", "WHERE")
    ]
    assert "KeyError: <n>" in lines[1]
    assert "remind in test_failures_command.py" in lines[1]
    assert re.match(rf"{failed}\s+3\s+3\s+3\s+.* ago .*charge\s+ValueError: order <n> refused", lines[2])
    assert told(capsys, "failures", "list", "--frequent").splitlines()[1].startswith(failed)
    assert told(capsys, "failures", "list", "--queue", "elsewhere").splitlines() == [
        "nothing has failed so",
        'no job, setting, schedule or worker knows the queue "elsewhere"',
    ]
    assert 'did you mean "charge"?' in told(capsys, "failures", "list", "--kind", "chrage")
    [group] = told_json(capsys, "failures", "list", "--kind", "charge", "--since", "2h")["groups"]
    assert (group["fingerprint"], group["last_hour"], group["kinds"]) == (failed, 3, ["charge"])


def test_a_list_continues_behind_its_cursor(failed: str, capsys: Captured) -> None:
    page = told_json(capsys, "failures", "list", "-n", "1")
    more = told_json(capsys, "failures", "list", "-n", "1", "--after", page["next"])
    assert [group["type"] for group in page["groups"] + more["groups"]] == ["KeyError", "ValueError"]
    told(capsys, "failures", "list", "--after", "nonsense", code=2)
    told(capsys, "failures", "list", "--since", "soon", code=2)


def test_a_group_is_shown(failed: str, capsys: Captured) -> None:
    text = told(capsys, "failures", "show", failed)
    assert text.startswith("ValueError: order <n> refused\n  failed    3 in 1h, 3 in 24h, 3 in 7d\n")
    assert f"3 dead letters; run them again with: holdfast failures retry {failed}" in text
    assert 'raise ValueError(f"order {order} refused")' in text
    shown = told_json(capsys, "failures", "show", failed)
    assert (shown["type"], shown["dead"]) == ("ValueError", {"count": 3, "has_more": False})
    assert [job["args"] for job in shown["jobs"]] == [{"order": 333}, {"order": 22}, {"order": 1}]


@pytest.mark.parametrize("verb", ["retry", "purge"])
def test_nothing_is_done_without_a_yes(failed: str, verb: str, capsys: Captured) -> None:
    capsys.readouterr()
    assert main(["failures", verb, failed]) == 4
    said = capsys.readouterr()
    does = {"retry": "retry", "purge": "delete"}[verb]
    assert said.out == ""
    assert f"this would {does} 3 dead letters of failure {failed}: give --yes" in said.err
    assert states(capsys) == ["failed"] * 5


@pytest.mark.parametrize("answer", [True, False])
def test_an_operator_at_a_terminal_is_asked(
    failed: str, answer: bool, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", confirm)
    told(capsys, "failures", "retry", failed, "-n", "2", code=0 if answer else 4)
    assert asked == [f"retry 2 of 3 dead letters of failure {failed}?"]
    assert states(capsys).count("ready") == (2 if answer else 0)


def test_a_group_is_retried_and_purged(failed: str, capsys: Captured, conn: psycopg.Connection) -> None:
    assert told(capsys, "failures", "retry", failed, "-n", "1", "--yes") == "1 retried\n"
    purged = told_json(capsys, "failures", "purge", failed, "--yes", "--by", "ann", "--reason", "too old")
    assert purged == {"deleted": 2}
    assert states(capsys) == ["failed", "failed", "ready"]
    assert told(capsys, "failures", "purge", failed) == "there are no dead letters\n"
    [entry] = conn.execute("select by, reason, counts from holdfast.audit where by = 'ann'").fetchall()
    assert entry == ("ann", "too old", {"deleted": 2})


@pytest.mark.parametrize("verb", ["show", "retry", "purge"])
def test_an_unknown_group_has_an_exit_code(failed: str, verb: str, capsys: Captured) -> None:
    told(capsys, "failures", verb, "0123456789abcdef", code=3)
