"""`holdfast operations`: preview, confirmation, and what became of it."""

import asyncio
import json
from typing import Any

import pytest

from holdfast import App
from holdfast.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def left(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three jobs that wait, and one that was cancelled."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)

    async def leave() -> None:
        async with App(dsn) as app:

            @app.job(queue="mail")
            async def welcome(user: int) -> None: ...

            handles = await app.enqueue_many(welcome.call(n) for n in range(4))
            await app.jobs.cancel(handles[0].id)

    asyncio.run(leave())
    return dsn


def told(capsys: Captured, *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(arguments) == code
    said = capsys.readouterr()
    return said.out, said.err


def told_json(capsys: Captured, *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--json")[0])


def test_nothing_is_done_without_a_yes(left: str, capsys: Captured) -> None:
    out, err = told(capsys, "operations", "start", "cancel", "kind:welcome", code=4)
    assert out == ""
    where, *said = err.splitlines()
    assert where.startswith("holdfast: database ")
    assert said == [
        "cancel would concern 3 jobs that match kind:welcome",
        "  skipped: 1 cancelled (only jobs that have not ended can be cancelled)",
        "holdfast: this would cancel 3 jobs: give --yes to do it",
    ]
    assert (
        told(capsys, "operations", "start", "cancel", "kind:welcome", "--dry-run")[1]
        .splitlines()[1]
        .startswith("cancel would")
    )
    assert told(capsys, "operations", "list")[0] == "there are no operations\n"
    assert len(told_json(capsys, "jobs", "list", "state:ready")["jobs"]) == 3


def test_an_operation_is_run_and_told_of(left: str, capsys: Captured) -> None:
    done = told_json(
        capsys,
        "operations",
        "start",
        "move",
        "state:ready",
        "--queue",
        "bulk",
        "--create",
        "--by",
        "ann",
        "--reason",
        "slow",
        "--yes",
    )
    assert (done["state"], done["counts"], done["by"]) == ("done", {"moved": 3}, "ann")
    assert [job["queue"] for job in told_json(capsys, "jobs", "list", "state:ready")["jobs"]] == ["bulk"] * 3
    out, _ = told(capsys, "operations", "start", "cancel", "queue:bulk", "--yes")
    assert out == "operation 2 is done: 3 cancelled\n"
    heads, second, first = told(capsys, "operations", "list")[0].splitlines()
    assert heads.split()[:4] == ["ID", "STATE", "ACTION", "FILTER"]
    assert second.split()[:5] == ["2", "✓", "done", "cancel", "queue:bulk"]
    assert "move queue=bulk" in first
    shown = told(capsys, "operations", "show", "1")[0].splitlines()
    assert shown[:2] == ["operation 1  ✓ done  move queue=bulk on state:ready", "  by        ann, slow"]
    assert shown[-1] == "  result    3 moved"
    assert told(capsys, "operations", "stop", "1")[0] == "operation 1 is done: 3 moved\n"


def test_the_operator_is_this_user_on_this_host_unless_named(left: str, capsys: Captured) -> None:
    done = told_json(capsys, "operations", "start", "cancel", "kind:welcome", "--yes")
    assert "@" in done["by"]


@pytest.mark.parametrize(
    ("arguments", "code", "told_of"),
    [
        (("start", "explode", "kind:a"), 2, "explode"),
        (("start", "cancel"), 2, "FILTER"),
        (("start", "cancel", "stat:ready", "--yes"), 2, 'did you mean "state"?'),
        (("start", "move", "kind:a", "--yes"), 2, "move takes queue"),
        (("start", "cancel", "kind:a", "--queue", "b", "--yes"), 2, "takes no parameters"),
        (("start", "reschedule", "kind:a", "--when", "soon", "--yes"), 2, "not a length of time"),
        (("show", "99"), 3, "no operation 99"),
        (("stop", "99"), 3, "no operation 99"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(
    left: str, capsys: Captured, arguments: tuple[str, ...], code: int, told_of: str
) -> None:
    assert told_of in told(capsys, "operations", *arguments, code=code)[1]
