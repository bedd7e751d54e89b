"""`holdfast audit`: who did what, as operators read it."""

import json

import psycopg
import pytest

from holdfast.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def left(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into holdfast.audit (at, by, action, target, reason, counts) values"
            " (now() - interval '3h 5m 30s', 'ann@web-1', 'cancel', 'jobs 1, 2, 99', 'wrong price',"
            """ '{"cancelled": 2, "unknown": 1}'),"""
            " (now() - interval '5m 30s', 'eve', 'move to bulk', 'job 3', null, '{\"moved\": 1}')"
        )
    return dsn


def told(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main(["audit", *arguments]) == code
    return capsys.readouterr().out


def test_entries_are_listed(left: str, capsys: Captured) -> None:
    lines = [line[21:] for line in told(capsys).splitlines()]
    assert lines == [
        "BY         ACTION        TARGET         RESULT                  REASON",
        "eve        move to bulk  job 3          1 moved",
        "ann@web-1  cancel        jobs 1, 2, 99  2 cancelled, 1 unknown  wrong price",
    ]


def test_entries_are_narrowed_and_paged(left: str, capsys: Captured) -> None:
    assert "ann@web-1" not in told(capsys, "--by", "eve")
    assert "ann@web-1" not in told(capsys, "--action", "move")
    assert told(capsys, "--by", "bob") == "no entry matches\n"
    page = json.loads(told(capsys, "-n", "1", "--json"))
    assert [entry["counts"] for entry in page["entries"]] == [{"moved": 1}]
    page = json.loads(told(capsys, "--after", page["next"], "--json"))
    assert ([entry["by"] for entry in page["entries"]], page["next"]) == (["ann@web-1"], None)
    assert main(["audit", "-n", "1"]) == 0
    assert capsys.readouterr().err.startswith("more: --after ")


def test_the_audit_alone_is_its_list(left: str, capsys: Captured) -> None:
    assert told(capsys, "list") == told(capsys)
    assert told(capsys, "list", "--by", "eve") == told(capsys, "--by", "eve")
    assert "list" in told(capsys, "--help")


def test_an_empty_audit_and_a_wrong_cursor(dsn: str, capsys: Captured) -> None:
    assert told(capsys, "--dsn", dsn) == "nobody has done anything yet\n"
    assert main(["audit", "--dsn", dsn, "--after", "nonsense"]) == 2
    assert main(["audit", "--dsn", dsn, "-n", "0"]) == 2
