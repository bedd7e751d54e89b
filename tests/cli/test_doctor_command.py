"""`holdfast doctor`: what it prints, and its exit code."""

import json
import re

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from holdfast.cli import main

Captured = pytest.CaptureFixture[str]


FOUND = """\
error: setting
  fsync is off: a crash of the machine may lose or damage jobs.
  → alter system set fsync = on, and reload.

error: setting
  full_page_writes is off: a crash of the machine may damage tables.
  → alter system set full_page_writes = on, and reload.

warning: no_worker
  No worker is alive: no job runs.
  → Start one with: holdfast worker -A …

note: queue_paused
  The queue "mail" was paused 5m ago ("provider down"); 0 jobs wait.
  → Resume it with: holdfast queues resume mail

HERE: looked at connection, server, notifications, schema, rights, transactions, \
tables, work, chores, ring
2 errors, 1 warning, 1 note
"""


@pytest.fixture
def target(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "insert into holdfast.queue (name, paused_at, pause_note)"
            " values ('mail', now() - interval '5 minutes', 'provider down')"
        )
    return dsn


def without_seconds(shown: str) -> str:
    return re.sub(r"5m \d+s ago", "5m ago", shown)


def test_findings_are_printed_worst_first_with_what_to_do(target: str, capsys: Captured) -> None:
    assert main(["doctor"]) == 5
    words = conninfo_to_dict(target)
    where = f"{words['host']}:{words['port']}/{words['dbname']}"
    assert without_seconds(capsys.readouterr().out) == FOUND.replace("HERE", where)


@pytest.mark.usefixtures("target")
def test_json_has_the_whole_report(capsys: Captured) -> None:
    assert main(["doctor", "--json"]) == 5
    report = json.loads(without_seconds(capsys.readouterr().out))
    assert set(report) == {"where", "findings", "looked_at"}
    assert report["findings"][-1] == {
        "code": "queue_paused",
        "level": "note",
        "sentence": 'The queue "mail" was paused 5m ago ("provider down"); 0 jobs wait.',
        "advice": "Resume it with: holdfast queues resume mail",
    }


def test_a_server_that_is_away_is_a_finding_and_no_traceback(capsys: Captured) -> None:
    assert main(["doctor", "--dsn", "postgresql://ann:secret@127.0.0.1:1/shop"]) == 5
    out = capsys.readouterr().out
    assert out.startswith("error: unreachable\n  cannot connect to 127.0.0.1:1/shop: ")
    assert "secret" not in out
