"""The exit codes of docs/reference/cli.md, where a command learns its fate from the database or the App."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from cli.worker_processes import APP, worker_process
from holdfast import App
from holdfast.cli import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def powerless(dsn: str) -> Iterator[str]:
    """The DSN of a role that may do nothing here."""
    role = sql.Identifier(name := f"powerless_{conninfo_to_dict(dsn)['dbname']}")
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(sql.SQL("create role {} login password 'secret'").format(role))
        yield make_conninfo(dsn, user=name, password="secret")
        admin.execute(sql.SQL("drop owned by {0}; drop role {0}").format(role))


@pytest.mark.parametrize(
    "arguments",
    [
        ["migrate", "--check"],
        ["migrate", "--schema", "other"],
        ["flows", "list"],
        ["flows", "emit", "packed:1"],
        ["schedules", "list"],
    ],
    ids=" ".join,
)
def test_a_right_that_is_missing_is_a_refusal(powerless: str, arguments: list[str], capsys: Captured) -> None:
    assert main([*arguments, "--dsn", powerless]) == 4
    *_, line = capsys.readouterr().err.splitlines()
    assert "permission denied" in line


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_without_rights_is_refused(powerless: str, tmp_path: Path, processes: str) -> None:
    (tmp_path / "shop.py").write_text(APP, "utf-8")
    with worker_process(tmp_path, powerless, "-A", "shop:app", "--processes", processes) as worker:
        assert worker.ended() == 4
    [line] = worker.log.splitlines()
    assert "permission denied" in line


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["flows", "emit", "k", "1", "--keep", "5"], "not a length of time"),
        (["flows", "emit", "k", "1", "--keep", "500000d"], "the longest is 36525d"),
        (["schedules", "pause", "report", "--until", "2020-01-01"], "2020-01-01"),
        (["schedules", "backfill", "report", "--from", "2026-03-08", "--to", "2026-03-01"], "2026-03-0"),
        (
            ["schedules", "backfill", "report", "--from", "2026-03-08", "--to", "2026-03-01", "--yes"],
            "2026-03-0",
        ),
        (["schedules", "backfill", "report", "--from", "2026-03-01", "--to", "2999-03-01"], "2999"),
        (["schedules", "backfill", "report", "--from", "1026-03-01", "--to", "2026-03-01"], "range"),
    ],
    ids=" ".join,
)
def test_an_option_that_only_the_app_can_refuse_is_a_wrong_call_too(
    dsn: str, arguments: list[str], told: str, capsys: Captured
) -> None:
    app = App(dsn)
    try:
        app.schedules.put_sync("report", app.job(report).call(), cron="0 9 * * *")
    finally:
        app.close_sync()
    assert main([*arguments, "--dsn", dsn]) == 2
    *_, line = capsys.readouterr().err.splitlines()  # before it, which database would be changed
    assert line.startswith("holdfast: ")
    assert told in line
    assert f'(see "holdfast {arguments[0]} {arguments[1]} --help")' in line


def report() -> None: ...
