"""`holdfast migrate`: what it prints, its exit codes, `--check`, `--sql` and `--json`."""

import json
import re
from pathlib import Path

import psycopg
import pytest

from holdfast.cli import main
from holdfast.postgres.embedded import EmbeddedServer
from migrations.migration_folders import NOTES, ROWS, migrations

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_DSN", raising=False)


def test_each_migration_is_told_and_then_where_the_schema_stands(
    dsn: str, tmp_path: Path, capsys: Captured
) -> None:
    known = migrations(tmp_path, NOTES, ROWS)
    assert main(["migrate", "--dsn", dsn, "--schema", "trial"], migrations=known) == 0
    assert main(["migrate", "--dsn", dsn, "--schema", "trial"], migrations=known) == 0
    assert capsys.readouterr().out.splitlines() == [
        "applying 0001_step",
        "applying 0002_step",
        'schema "trial" is at 2, it was at 0',
        'schema "trial" is at 2: nothing to do',
    ]


def test_the_page_about_migrating_shows_what_a_first_migration_prints(dsn: str, capsys: Captured) -> None:
    page = Path(__file__).parents[2] / "docs/how-to/migrate.md"
    shown = re.findall(r"```\n(applying .*?)```", page.read_text("utf-8"), re.DOTALL)
    with psycopg.connect(dsn) as connection:
        connection.execute("drop schema holdfast cascade")
    assert main(["migrate", "--dsn", dsn]) == 0
    assert [capsys.readouterr().out] == shown


def test_the_dsn_may_come_from_the_environment(
    dsn: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    assert main(["migrate"]) == 0
    assert main(["migrate", "--check"]) == 0


@pytest.mark.parametrize("flags", [[], ["--check"], ["--json"]])
def test_without_a_dsn_both_choices_are_named(flags: list[str], capsys: Captured) -> None:
    assert main(["migrate", *flags]) == 2
    message = capsys.readouterr().err
    assert "--dsn" in message
    assert "HOLDFAST_DSN" in message
    assert "postgresql://user@host/database" in message
    assert "embedded" in message


def test_check_answers_by_exit_code_and_changes_nothing(dsn: str, tmp_path: Path, capsys: Captured) -> None:
    known = migrations(tmp_path, NOTES, f"-- min_code: 2\n{ROWS}")
    check = ["migrate", "--dsn", dsn, "--schema", "trial", "--check"]
    assert main(check, migrations=known[:1]) == 1
    sentence = (
        'schema "trial" has not been created, this release needs 1: run "holdfast migrate --schema trial"'
    )
    assert capsys.readouterr().err == f"holdfast: database {sentence}\n"
    with psycopg.connect(dsn) as conn:
        assert not conn.execute("select 1 from pg_namespace where nspname = 'trial'").fetchone()
    assert main(check[:-1], migrations=known) == 0
    assert main(check, migrations=known) == 0
    assert capsys.readouterr().out.splitlines()[-1] == 'schema "trial" is at 2'
    assert main(check, migrations=known[:1]) == 1
    assert "upgrade Holdfast here" in capsys.readouterr().err


@pytest.mark.requirement("S2.3")
def test_the_bound_on_waiting_for_the_pool_does_not_concern_a_migration(dsn: str, tmp_path: Path) -> None:
    slow = migrations(tmp_path, "select pg_sleep(0.05);")
    pooled = f"{dsn} pool_max_conns=1 pool_timeout=1ms"
    assert main(["migrate", "--dsn", pooled, "--schema", "trial"], migrations=slow) == 0


def test_older_code_is_told_that_a_newer_schema_still_serves_it(
    dsn: str, tmp_path: Path, capsys: Captured
) -> None:
    known = migrations(tmp_path, NOTES, ROWS)
    assert main(["migrate", "--dsn", dsn, "--schema", "trial"], migrations=known) == 0
    assert main(["migrate", "--dsn", dsn, "--schema", "trial", "--check"], migrations=known[:1]) == 0
    assert main(["migrate", "--dsn", dsn, "--schema", "trial"], migrations=known[:1]) == 0
    newer = 'schema "trial" is at 2, newer than this release knows (1), and works with it'
    assert capsys.readouterr().out.splitlines()[-2:] == [newer, f"{newer}: nothing to do"]


def test_json_has_a_stable_shape(dsn: str, tmp_path: Path, capsys: Captured) -> None:
    known = migrations(tmp_path, NOTES, ROWS)
    arguments = ["migrate", "--dsn", dsn, "--schema", "trial", "--json"]

    def answer(*flags: str, code: int) -> dict[str, object]:
        assert main([*arguments, *flags], migrations=known) == code
        facts: dict[str, object] = json.loads(capsys.readouterr().out)
        return facts

    steps = ["0001_step", "0002_step"]
    advice = 'run "holdfast migrate --schema trial"'
    sentence = f'database schema "trial" has not been created, this release needs 2: {advice}'
    assert answer("--check", code=1) == {
        "schema": "trial",
        "version": 0,
        "min_code": 0,
        "known": 2,
        "pending": steps,
        "problem": sentence,
    }
    assert answer(code=0) == {
        "schema": "trial",
        "from_version": 0,
        "to_version": 2,
        "min_code": 1,
        "applied": steps,
    }
    assert answer("--check", code=0) == {
        "schema": "trial",
        "version": 2,
        "min_code": 1,
        "known": 2,
        "pending": [],
        "problem": None,
    }


def test_sql_without_a_dsn_prints_everything_and_connects_to_nothing(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psycopg, "connect", lambda *_, **__: pytest.fail("connected"))
    assert main(["migrate", "--sql", "--schema", "trial"], migrations=migrations(tmp_path, NOTES, ROWS)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith('-- Holdfast: schema "trial" from 0 to 2')
    assert out.endswith("commit;\n")


def test_sql_with_a_dsn_prints_what_is_pending_and_running_it_satisfies_check(
    dsn: str, tmp_path: Path, capsys: Captured
) -> None:
    known = migrations(tmp_path, NOTES, ROWS)
    arguments = ["migrate", "--dsn", dsn, "--schema", "trial"]
    assert main(arguments, migrations=known[:1]) == 0
    capsys.readouterr()
    assert main([*arguments, "--sql"], migrations=known) == 0
    text = capsys.readouterr().out
    assert text.startswith('-- Holdfast: schema "trial" from 1 to 2')
    assert main([*arguments, "--check"], migrations=known) == 1
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(text.encode())
    assert main([*arguments, "--check"], migrations=known) == 0


@pytest.mark.parametrize("flag", ["--check", "--json"])
def test_sql_goes_with_nothing_that_prints_something_else(flag: str, capsys: Captured) -> None:
    assert main(["migrate", "--sql", flag]) == 2


def test_a_failure_is_one_line_without_a_traceback(dsn: str, tmp_path: Path, capsys: Captured) -> None:
    broken = migrations(tmp_path, NOTES, "select\n  nowhere;")
    assert main(["migrate", "--dsn", dsn, "--schema", "trial"], migrations=broken) == 1
    err = capsys.readouterr().err
    assert err == (
        "holdfast: migration 2 (0002_step.sql) failed and was rolled back, the database is unchanged: "
        'line 2: column "nowhere" does not exist\n'
    )


def test_a_migration_that_was_altered_after_it_was_applied_is_warned_of(
    dsn: str, tmp_path: Path, capsys: Captured
) -> None:
    arguments = ["migrate", "--dsn", dsn, "--schema", "trial"]
    assert main(arguments, migrations=migrations(tmp_path, NOTES)) == 0
    assert main(arguments, migrations=migrations(tmp_path, f"{NOTES}-- afterthought\n")) == 0
    assert "warning: 0001_step was applied with a different text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("dsn_text", "code"),
    [
        ("postgresql://me:geheim@127.0.0.1:1/shop", 1),
        ("host=127.0.0.1 port=1 user=me password=geheim", 1),
        ("postgresql://me:geheim@host:port/x", 2),
        ("mysql://me:geheim@host/x", 2),
        ("geheim", 2),
    ],
)
def test_a_password_is_never_printed(dsn_text: str, code: int, capsys: Captured) -> None:
    assert main(["migrate", "--dsn", dsn_text]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("holdfast: ")
    assert err.count("\n") == 1
    assert "geheim" not in err


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("--schema", "Robert'); drop", "use 1 to 40 of a-z"),
        ("--lock-timeout", "5", "write numbers with units"),
        ("--lock-timeout", "0s", "too short"),
    ],
)
def test_a_wrong_option_is_a_usage_error(option: str, value: str, expected: str, capsys: Captured) -> None:
    assert main(["migrate", "--dsn", "host=x", option, value]) == 2
    err = capsys.readouterr().err
    assert f"Invalid value for '{option}'" in err
    assert expected in err


def test_embedded_migrates_a_private_server_in_the_named_directory(tmp_path: Path, capsys: Captured) -> None:
    place = f"embedded:{tmp_path / 'data'}"
    assert main(["migrate", "--dsn", place]) == 0
    assert main(["migrate", "--dsn", place, "--check"]) == 0
    with EmbeddedServer.start(tmp_path / "data") as server, psycopg.connect(server.dsn) as conn:
        assert conn.execute("select count(*) > 0 from holdfast.migration").fetchone() == (True,)
