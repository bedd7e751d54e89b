"""`holdfast groups`: what operators read and do, on a database that a worker has left."""

import asyncio
import json
from dataclasses import dataclass

import pytest

from flows.fast_worker import working
from groups.kinds import Kinds
from holdfast import App
from holdfast.cli import main

Captured = pytest.CaptureFixture[str]


@dataclass
class Left:
    """The ids of groups that a worker has left: one that ended, one whose on_failure ran, one that waits."""

    ended: int = 0
    failed: int = 0
    waiting: int = 0


@pytest.fixture
def left(dsn: str, monkeypatch: pytest.MonkeyPatch) -> Left:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    left = Left()

    async def leave() -> None:
        async with App(dsn) as app:
            kinds = Kinds.of(app)
            ended = await app.group([kinds.work.call(1)], then=kinds.report.call("sum"), name="night")
            failed = await app.group(
                [kinds.work.call(1), kinds.work.call(-1)],
                then=kinds.report.call("sum"),
                on_failure=kinds.alarm.call(),
                tags=["books"],
            )
            waiting = await app.group(
                [kinds.work.using(delay="1h").call(1), kinds.work.using(delay="1h").call(2)],
                then=kinds.report.call("sum"),
            )
            left.ended, left.failed, left.waiting = ended.id, failed.id, waiting.id
            async with working(app):
                await ended.result("30s")
                await failed.wait("30s")
                alarm = (await failed.status()).then_job
                await app.handle(alarm or 0).result("30s")

    asyncio.run(leave())
    return left


def test_a_list_has_a_line_for_each_group_the_newest_first(left: Left, capsys: Captured) -> None:
    assert main(["groups", "list"]) == 0
    heads, waiting, failed, ended = capsys.readouterr().out.splitlines()
    assert heads.split()[:6] == ["ID", "STATE", "NAME", "MEMBERS", "ENDED", "SUCCEEDED"]
    assert waiting.split()[:6] == [str(left.waiting), "◔", "running", "2", "0", "%"]
    assert failed.split()[:4] == [str(left.failed), "✕", "ended", "2"]
    assert "alarm" in failed
    assert ended.split()[:5] == [str(left.ended), "✓", "ended", "night", "1"]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (["--state", "running"], ["waiting"]),
        (["--name", "night"], ["ended"]),
        (["--tag", "books"], ["failed"]),
        (["-n", "1"], ["waiting"]),
        (["--state", "cancelled"], []),
    ],
)
def test_a_list_can_be_narrowed(left: Left, capsys: Captured, options: list[str], names: list[str]) -> None:
    assert main(["groups", "list", "--json", *options]) == 0
    found = [each["id"] for each in json.loads(capsys.readouterr().out)]
    assert found == [getattr(left, name) for name in names]


def test_the_next_page_is_before_the_last_id(left: Left, capsys: Captured) -> None:
    assert main(["groups", "list", "--json", "--before", str(left.waiting)]) == 0
    found = [each["id"] for each in json.loads(capsys.readouterr().out)]
    assert found == [left.failed, left.ended]


def test_show_tells_what_it_waits_for_and_what_follows(left: Left, capsys: Captured) -> None:
    assert main(["groups", "show", str(left.waiting)]) == 0
    out = capsys.readouterr().out
    assert "2 of 2 members have not ended; then report follows." in out
    assert out.count("◷ scheduled") == 2
    assert main(["groups", "show", str(left.failed)]) == 0
    out = capsys.readouterr().out
    assert "1 succeeded, 1 failed" in out
    assert "(alarm, on_failure)" in out


def test_show_as_json_has_counts_and_awaited_members(left: Left, capsys: Captured) -> None:
    assert main(["groups", "show", str(left.waiting), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["status"]["counts"]["members"] == 2
    assert [each["place"] for each in shown["awaited"]] == [0, 1]


def test_following_a_group_that_has_ended_shows_it_at_once(left: Left, capsys: Captured) -> None:
    assert main(["groups", "show", str(left.ended), "--follow"]) == 0
    assert "100 % ended: 1 succeeded" in capsys.readouterr().out


def test_cancelling_needs_a_yes_and_leaves_an_entry_in_the_audit(left: Left, capsys: Captured) -> None:
    group = str(left.waiting)
    assert main(["groups", "cancel", group]) == 4
    assert "cancel 2 members of group" in capsys.readouterr().err
    assert main(["groups", "cancel", group, "--yes", "--reason", "late", "--by", "ann"]) == 0
    assert f"group {group} is cancelled" in capsys.readouterr().out
    assert main(["audit", "--json"]) == 0
    [entry] = [each for each in json.loads(capsys.readouterr().out)["entries"] if each["by"] == "ann"]
    assert (entry["action"], entry["target"], entry["reason"]) == ("cancel", f"group {group}", "late")
    assert main(["groups", "cancel", group, "--yes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"group": left.waiting, "answer": "final"}


def test_a_group_that_is_not_there_is_told(left: Left, capsys: Captured) -> None:
    for command in ("show", "cancel"):
        assert main(["groups", command, "4711"]) == 3
        assert "group 4711 does not exist" in capsys.readouterr().err


def test_jobs_are_listed_by_their_group_and_show_it(left: Left, capsys: Captured) -> None:
    assert main(["jobs", "list", f"group:{left.failed}", "state:failed", "--json"]) == 0
    [job] = json.loads(capsys.readouterr().out)["jobs"]
    assert main(["jobs", "show", str(job["id"])]) == 0
    assert f"{left.failed}, see: holdfast groups show {left.failed}" in capsys.readouterr().out


def test_without_groups_the_list_says_how_to_make_one(
    dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    assert main(["groups", "list"]) == 0
    assert capsys.readouterr().out == "there are no groups: app.group(calls, …) makes one\n"
