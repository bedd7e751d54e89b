"""`holdfast fsck`: what operators read of damaged tables, and how they mend them."""

import json

import psycopg
import pytest

from cli.terminal import terminal
from holdfast.cli import main
from support.engine import Engine

Captured = pytest.CaptureFixture[str]

FOUND = """\
lost  2 found
  jobs    1, 2
  means   The job has not ended, and is in no table: no worker will run it.
  --fix   The job runs again, with the attempts that the ledger knows of.

looked at 3 jobs: 2 damaged; holdfast fsck --fix mends them
"""
MENDED = """\
lost  2 of 2 mended
  jobs    1, 2
  means   The job has not ended, and is in no table: no worker will run it.
  --fix   The job runs again, with the attempts that the ledger knows of.

looked at 3 jobs: 2 damaged, 2 mended
"""


@pytest.fixture
def damaged(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two jobs that are nowhere, and one that waits."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    with Engine.on(dsn, now=None) as engine:
        engine.enqueue()
        engine.enqueue()
        engine.connection.execute("delete from holdfast.ready")
        engine.enqueue()
    return dsn


def test_a_sound_database_is_said_to_be_well(
    dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    assert main(["fsck"]) == 0
    assert capsys.readouterr().out == "looked at 0 jobs: all is well\n"


@pytest.mark.usefixtures("damaged")
def test_damage_is_named_with_what_it_means_and_exits_with_5(capsys: Captured) -> None:
    assert main(["fsck"]) == 5
    assert capsys.readouterr().out == FOUND


def test_fixing_asks_first_and_leaves_an_entry_in_the_audit(damaged: str, capsys: Captured) -> None:
    assert main(["fsck", "--fix"]) == 4
    assert "give --yes to do it" in capsys.readouterr().err
    assert main(["fsck", "--fix", "--yes", "--by", "ann", "--reason", "a dump missed them"]) == 0
    assert capsys.readouterr().out == MENDED
    assert main(["fsck"]) == 0
    with psycopg.connect(damaged) as connection:
        [entry] = connection.execute("select action, by, target, reason from holdfast.audit").fetchall()
    assert entry == ("fsck lost", "ann", "jobs 1, 2", "a dump missed them")


@pytest.mark.usefixtures("damaged")
def test_json_has_the_whole_report(capsys: Captured) -> None:
    assert main(["fsck", "--json"]) == 5
    report = json.loads(capsys.readouterr().out)
    assert {name: report[name] for name in ("jobs", "is_fixing")} == {"jobs": 3, "is_fixing": False}
    [damage] = report["damages"]
    assert {name: damage[name] for name in ("code", "count", "fixed", "jobs")} == {
        "code": "lost",
        "count": 2,
        "fixed": 0,
        "jobs": [1, 2],
    }


def test_a_terminal_sees_how_far_it_has_come(damaged: str) -> None:
    with terminal("fsck", "--dsn", damaged, columns=120) as shown:
        shown.read_to_the_end()
    assert "1 of " in shown.text, "which check it is at"
    assert " rows" in shown.text
    assert shown.lines[-1] == "looked at 3 jobs: 2 damaged; holdfast fsck --fix mends them"
