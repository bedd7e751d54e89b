"""`holdfast schedules`: what operators read and do, on a database with a planner that the test drives."""

import asyncio
import json
import os
import pty
import re
import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from cli.processes import command
from holdfast import App
from holdfast.cli import main
from schedules.driven_planner import Books, Heard, planner_on

Captured = pytest.CaptureFixture[str]
HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def environment(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)


@pytest.fixture
def books(dsn: str) -> Books:
    """Two schedules: one of mornings in Oslo, one for three tenants, not looked at for hours."""
    app = App(dsn)

    @app.job
    def report(day: str) -> str:
        return day

    @app.job
    def rollup() -> None: ...

    try:
        app.schedules.put_sync("report", report.call("today"), cron="0 9 * * mon-fri", tz="Europe/Oslo")
        app.schedules.put_sync(
            "rollup", rollup.call(), every="1h", scopes=["a", "b", "c"], missed="every", window="2h"
        )
    finally:
        app.close_sync()
    books = Books(dsn)
    books.look_back("rollup", 5 * HOUR)
    return books


@pytest.fixture
def plan(dsn: str) -> Callable[[], None]:
    """One pass of the planner."""

    async def once() -> None:
        async with planner_on(dsn, Heard()) as planner:
            await planner.once()

    return lambda: asyncio.run(once())


def answer(capsys: Captured, *arguments: str, code: int = 0) -> Any:
    assert main(["schedules", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def lines(capsys: Captured, *arguments: str, code: int = 0) -> list[str]:
    assert main(["schedules", *arguments]) == code
    return capsys.readouterr().out.splitlines()


def test_a_list_says_what_fires_when_and_how_it_stands(
    books: Books, plan: Callable[[], None], capsys: Captured
) -> None:
    plan()
    heads, report, rollup = lines(capsys, "list")
    assert heads.split() == ["NAME", "STATE", "NEXT", "LAST", "PLAN", "SCOPES", "WHEN"]
    assert re.fullmatch(
        r"report +active +in .* never +at 09:00 on Monday through Friday, Europe/Oslo", report
    )
    assert re.fullmatch(r"rollup +active +in .* ago +3 +every 1h", rollup)
    facts = {each["name"]: each for each in answer(capsys, "list")}
    assert facts["report"]["timing"] == {"cron": "0 9 * * mon-fri", "tz": "Europe/Oslo"}
    assert facts["rollup"]["timing"] == {"every": 3600}
    assert facts["rollup"]["rules"]["window"] == 7200
    assert (facts["rollup"]["state"], facts["rollup"]["scopes"]) == ("active", 3)


def test_a_schedule_whose_job_no_live_worker_knows_says_so_at_once(books: Books, capsys: Captured) -> None:
    """Its job was renamed in the code that the workers run by now."""
    assert "no live worker" not in "".join(lines(capsys, "list")), "no worker has declared its kinds"
    books.rows(
        "insert into holdfast.worker"
        " (host, pid, version, queues, kinds, slots, started_at, beat_at, expires_at)"
        " values ('h', 1, '0', '{default}', '{report,roll_up}', 1, now(), now(), now() + interval '1 h')"
    )
    listed = {one["name"]: (one["state"], one["is_kind_known"]) for one in answer(capsys, "list")}
    assert listed == {"report": ("active", True), "rollup": ("orphaned", False)}
    assert "orphaned: no live worker knows rollup" in "".join(lines(capsys, "list"))
    assert "no live worker knows this job: it was renamed or removed" in "".join(
        lines(capsys, "show", "rollup")
    )


def test_without_schedules_a_list_says_how_to_get_one(capsys: Captured) -> None:
    assert "@app.schedule" in lines(capsys, "list")[0]
    assert answer(capsys, "list") == []


def test_one_schedule_is_shown_with_its_rules_and_latest_plans(
    books: Books, plan: Callable[[], None], capsys: Captured
) -> None:
    plan()
    text = "\n".join(lines(capsys, "show", "rollup"))
    assert "missed every, overlap allow, window 2h" in text
    assert "stored on" in text
    assert "caught up" in text
    facts = answer(capsys, "show", "report")
    assert (facts["kind"], facts["args"], facts["plans"]) == ("report", "[secret]", [])


def test_next_times_are_shown_in_utc_and_in_the_schedules_zone(books: Books, capsys: Captured) -> None:
    times = [datetime.fromisoformat(text) for text in answer(capsys, "next", "report", "-n", "4")]
    assert len(times) == 4
    heads, *rows = lines(capsys, "next", "report", "-n", "4")
    assert heads == "TIME (UTC)           TIME (Europe/Oslo)"
    for time, row in zip(times, rows, strict=True):
        assert time.tzinfo is not None
        assert time.weekday() < 5
        assert row.startswith(f"{time:%Y-%m-%d %H:%M:%S}  {time:%a %Y-%m-%d} 09:00:00  in ")
    assert "09:00:00" not in lines(capsys, "next", "report", "-n", "1", "--tz", "Asia/Tokyo")[1]


def test_history_shows_what_was_missed_and_what_became_of_the_rest(
    books: Books, plan: Callable[[], None], capsys: Captured
) -> None:
    plan()
    missed = answer(capsys, "history", "rollup", "--missed")
    assert {(each["decision"], each["reason"], each["job"]) for each in missed} == {
        ("missed", "outside_window", None)
    }
    assert {each["scope"] for each in missed} == {"a", "b", "c"}
    all_of_a = answer(capsys, "history", "rollup", "--scope", "a")
    assert {each["decision"] for each in all_of_a} >= {"missed", "caught_up"}
    assert all(each["state"] == "ready" for each in all_of_a if each["job"])
    oldest = all_of_a[-1]
    assert answer(capsys, "history", "rollup", "--before", oldest["time"]) == []
    assert lines(capsys, "history", "rollup", "--before", oldest["time"]) == ["no plan matches"]
    assert any("missed: outside window (" in line for line in lines(capsys, "history", "rollup"))
    assert lines(capsys, "history", "report") == ['"report" has not had a plan yet']


def test_run_fires_one_at_once_and_many_only_when_that_is_meant(books: Books, capsys: Captured) -> None:
    assert main(["schedules", "run", "rollup"]) == 4
    assert "3 scopes: give --scope for one, or --yes" in capsys.readouterr().err
    assert books.jobs() == 0
    (fired,) = answer(capsys, "run", "rollup", "--scope", "b", "--reason", "asked")
    assert fired["scope"] == "b"
    assert lines(capsys, "run", "report")[-1] == "fired 1 job"
    assert lines(capsys, "run", "rollup", "--yes")[-1] == "fired 3 jobs"
    assert books.jobs() == 5
    assert answer(capsys, "history", "rollup", "--scope", "b")[-1]["reason"] == "asked"


def test_a_pause_has_a_note_and_an_end_and_is_taken_back(books: Books, capsys: Captured) -> None:
    assert lines(capsys, "pause", "report") == ['"report" is paused until it is resumed']
    facts = answer(capsys, "pause", "report", "--until", "2h", "--note", "moving house")
    length = datetime.fromisoformat(facts["paused_until"]) - datetime.fromisoformat(facts["paused_at"])
    assert timedelta(hours=2) <= length < timedelta(hours=3)
    assert facts["state"] == "paused"
    assert "moving house" in "\n".join(lines(capsys, "show", "report"))
    assert main(["schedules", "next", "report"]) == 0
    assert "is paused" in capsys.readouterr().err
    assert main(["schedules", "pause", "report", "--until", "2999-01-01"]) == 0
    assert "2999-01-01 00:00:00 UTC" in capsys.readouterr().out
    assert main(["schedules", "next", "report"]) == 0
    assert "skipped until 2999-01-01 00:00:00 UTC" in capsys.readouterr().err
    assert main(["schedules", "pause", "report", "--until", "2020-01-01"]) != 0
    assert "which has passed" in capsys.readouterr().err
    assert lines(capsys, "resume", "report")[0].startswith('"report" fires again, next at ')
    assert lines(capsys, "resume", "report") == ['"report" was not paused']


def test_a_skip_lets_the_next_plans_pass_and_is_taken_back(books: Books, capsys: Captured) -> None:
    first, second = answer(capsys, "next", "report", "-n", "2")
    assert answer(capsys, "skip", "report") == [{"scope": "", "time": first}]
    assert answer(capsys, "next", "report", "-n", "1") == [second]
    assert lines(capsys, "skip", "report", "-n", "0") == ['"report" will skip nothing']
    assert answer(capsys, "next", "report", "-n", "1") == [first]
    assert lines(capsys, "skip", "rollup", "-n", "2", "--scope", "a")[-1] == '"rollup" will skip 2 plans'


def test_a_backfill_is_shown_first_and_fires_what_has_not_fired_once(
    books: Books, plan: Callable[[], None], capsys: Captured
) -> None:
    plan()
    before = books.jobs()
    end = datetime.fromisoformat(answer(capsys, "history", "rollup")[0]["time"])
    asked = ["backfill", "rollup", "--from", (end - 10 * HOUR).isoformat(), "--to", end.isoformat()]
    planned = answer(capsys, *asked, "--dry-run")
    assert {each["fate"] for each in planned} == {"fire", "fired"}
    wanted = sum(each["fate"] == "fire" for each in planned)
    assert lines(capsys, *asked, "--dry-run")[-1] == f'"rollup" would fire {wanted} plans of 33 in this range'
    assert main(["schedules", *asked]) == 4
    assert "give --yes" in capsys.readouterr().err
    assert books.jobs() == before
    assert len(answer(capsys, *asked, "--yes", "--reason", "repaired")) == wanted
    assert answer(capsys, *asked, "--yes") == []
    assert books.jobs() == before + wanted


def test_deleting_needs_a_yes_and_leaves_the_history(books: Books, capsys: Captured) -> None:
    assert lines(capsys, "run", "report")[-1] == "fired 1 job"
    assert main(["schedules", "delete", "report"]) == 4
    assert lines(capsys, "delete", "report", "--yes") == ['"report" is deleted']
    assert [each["name"] for each in answer(capsys, "list")] == ["rollup"]
    assert len(answer(capsys, "history", "report")) == 1
    assert main(["schedules", "show", "report"]) == 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["show"],
        ["next"],
        ["history"],
        ["run"],
        ["pause"],
        ["resume"],
        ["skip"],
        ["backfill", "--from", "2026-01-01", "--to", "2026-01-02"],
        ["delete"],
    ],
)
def test_a_name_that_does_not_exist_has_its_own_exit_code(arguments: list[str], capsys: Captured) -> None:
    verb, *options = arguments
    assert main(["schedules", verb, "nope", *options]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert 'there is no schedule "nope"' in err


@pytest.mark.parametrize(
    ("arguments", "code", "advice"),
    [
        (["next", "rollup", "--scope", "z"], 3, 'no scope "z"'),
        (["next", "rollup", "--tz", "Oslo"], 2, '"Europe/Oslo"'),
        (["pause", "rollup", "--until", "soon"], 2, "2026-03-29T09:00"),
        (["backfill", "rollup", "--from", "yesterday", "--to", "2026-01-01"], 2, "is not a time"),
        (["backfill", "rollup", "--from", "2026-01-02", "--to", "2026-01-01"], 2, "earlier time first"),
        (["backfill", "rollup", "--from", "2026-01-02", "--to", "2999-01-01"], 2, "not in the past"),
        (["next", "rollup", "-n", "0"], 2, "1<=x<=1000"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    arguments: list[str], code: int, advice: str, books: Books, capsys: Captured
) -> None:
    assert main(["schedules", *arguments]) == code
    assert advice in capsys.readouterr().err


def test_without_a_database_both_choices_are_named(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.delenv("HOLDFAST_DSN")
    assert main(["schedules", "list"]) == 2
    assert "--dsn" in capsys.readouterr().err


@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_of_a_table_is_wider_than_the_terminal(
    columns: int, books: Books, plan: Callable[[], None]
) -> None:
    plan()
    wide = 0
    for arguments in (["list"], ["history", "rollup"], ["next", "report"]):
        shown = in_a_terminal(columns, "schedules", *arguments)
        assert len(shown) > 2
        wide = max(wide, *(len(line) for line in shown))
    assert wide <= columns


def in_a_terminal(columns: int, *arguments: str) -> list[str]:
    """What is seen there, without colours."""
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", buffering=0) as seen, os.fdopen(follower, "wb") as terminal:
        done = subprocess.run(
            command(*arguments),
            stdout=terminal,
            env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm"},
            check=True,
            timeout=60,
        )
        assert done.returncode == 0
        text = seen.read(65_536).decode()
    return re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
