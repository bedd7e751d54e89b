"""Applying migrations: all or nothing, under one lock, on any server and with any settings."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from holdfast.errors import (
    CodeOutdated,
    ConnectionFailed,
    ConnectionLost,
    MigrationBlocked,
    MigrationFailed,
    SchemaError,
    ServerTooOld,
    StatementFailed,
    WrongConnection,
)
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.migrations import standing
from holdfast.postgres.migrations.migration import Migration
from holdfast.postgres.migrations.runner import migrate, own_connection
from holdfast.postgres.migrations.standing import look
from holdfast.postgres.schema import Schema
from migrations.migration_folders import NOTES, ROWS, TRIAL, migrations

SOON = timedelta(milliseconds=50)


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with own_connection(Dsn.parse(dsn)) as conn:
        yield conn


@pytest.fixture
def other(dsn: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(dsn) as other:
        yield other


def bodies(conn: psycopg.Connection, schema: Schema = TRIAL) -> list[str]:
    return [row[0] for row in conn.execute(f"select body from {schema.quoted}.note order by id")]


def has_schema(conn: psycopg.Connection, schema: Schema = TRIAL) -> bool:
    return bool(conn.execute("select 1 from pg_namespace where nspname = %s", [schema.name]).fetchone())


def test_a_server_that_is_too_old_is_refused_before_anything_is_made(
    conn: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "OLDEST_SERVER", 99)
    with pytest.raises(ServerTooOld, match=r"^this server is Postgres \d\d\.\d+, Holdfast needs 99 or later"):
        migrate(conn, TRIAL, migrations(tmp_path, NOTES))
    assert not has_schema(conn)


@pytest.mark.requirement("S2.6")
def test_pending_migrations_are_applied_and_a_second_call_has_nothing_to_do(
    conn: psycopg.Connection, tmp_path: Path
) -> None:
    first = migrate(conn, TRIAL, migrations(tmp_path, NOTES))
    assert (first.from_version, first.to_version, [str(m) for m in first.applied]) == (0, 1, ["0001_step"])
    both = migrations(tmp_path, NOTES, ROWS)
    assert (migrate(conn, TRIAL, both).from_version, bodies(conn)) == (1, ["first"])
    again = migrate(conn, TRIAL, both)
    assert (again.from_version, again.to_version, again.applied) == (2, 2, ())


def test_each_migration_is_recorded_with_when_and_by_whom(conn: psycopg.Connection, tmp_path: Path) -> None:
    known = migrations(tmp_path, NOTES, f"-- min_code: 2\n{ROWS}")
    migrate(conn, TRIAL, known)
    rows = conn.execute(
        "select version, name, checksum, min_code from trial.migration"
        " where applied_by = session_user and applied_at <= now() order by version"
    ).fetchall()
    assert rows == [(1, "step", known[0].checksum, 1), (2, "step", known[1].checksum, 2)]


def test_two_schemas_of_one_database_know_nothing_of_each_other(
    conn: psycopg.Connection, tmp_path: Path
) -> None:
    known = migrations(tmp_path, NOTES, ROWS)
    migrate(conn, TRIAL, known)
    assert migrate(conn, Schema("order"), known[:1]).to_version == 1  # a word of SQL is a fine name
    assert (bodies(conn), bodies(conn, Schema("order"))) == (["first"], [])


@pytest.mark.requirement("S2.6")
def test_a_failing_migration_rolls_everything_back_and_names_file_line_and_reason(
    conn: psycopg.Connection, tmp_path: Path
) -> None:
    known = migrations(tmp_path, NOTES, "-- {schema}\nselect 1;\nselect nowhere from {schema}.note;\n", ROWS)
    with pytest.raises(MigrationFailed) as caught:
        migrate(conn, TRIAL, known)
    assert caught.value.version == 2
    message = str(caught.value)
    assert "migration 2 (0002_step.sql) failed and was rolled back" in message
    assert 'line 3: column "nowhere" does not exist' in message
    assert not has_schema(conn)
    assert migrate(conn, TRIAL, migrations(tmp_path, NOTES, ROWS, "select 1;")).to_version == 3


def test_what_worked_before_stays_when_a_later_call_fails(conn: psycopg.Connection, tmp_path: Path) -> None:
    migrate(conn, TRIAL, migrations(tmp_path, NOTES))
    with pytest.raises(MigrationFailed, match="division by zero"):
        migrate(conn, TRIAL, migrations(tmp_path, NOTES, ROWS, "select 1 / 0;"))
    assert bodies(conn) == []
    assert look(conn, TRIAL, ()).found.version == 1


def test_what_postgres_advises_is_part_of_the_reason(conn: psycopg.Connection, tmp_path: Path) -> None:
    text = "do $$ begin raise exception 'No.' using detail = 'Too late.', hint = 'Go home.'; end $$;"
    with pytest.raises(MigrationFailed, match=r"No\. Too late\. Go home$"):
        migrate(conn, TRIAL, migrations(tmp_path, text))


def test_a_constraint_that_fails_only_at_commit_is_reported_and_nothing_stays(
    conn: psycopg.Connection, tmp_path: Path
) -> None:
    text = (
        "create table {schema}.a (id int primary key,"
        " b int references {schema}.a deferrable initially deferred);"
        "insert into {schema}.a values (1, 2);"
    )
    with pytest.raises(StatementFailed, match=r"nothing was migrated: .*foreign key"):
        migrate(conn, TRIAL, migrations(tmp_path, text))
    assert not has_schema(conn)


def test_percent_signs_unicode_and_quoted_bodies_arrive_as_they_are_written(
    conn: psycopg.Connection, tmp_path: Path
) -> None:
    text = (
        "insert into {schema}.note values (1, '100 %s %(x)s %% Überraschung 🎁 \\n {}');\n"
        "create function {schema}.f() returns text language plpgsql as $f$\n"
        "begin\n  return format('%s; %I', ';', $q$ü$q$);\nend\n$f$;\n"
        "insert into {schema}.note values (2, {schema}.f())  -- no semicolon, and a comment at the end"
    )
    migrate(conn, TRIAL, migrations(tmp_path, NOTES, text))
    assert bodies(conn) == ["100 %s %(x)s %% Überraschung 🎁 \\n {}", ';; "ü"']


def test_settings_of_role_database_or_dsn_do_not_change_what_a_migration_does(
    dsn: str, tmp_path: Path
) -> None:
    names = ["transaction_isolation", "search_path", "statement_timeout", "lock_timeout", "client_encoding"]
    settings = ", ".join(f"current_setting('{name}')" for name in names)
    known = migrations(tmp_path, f"create table {{schema}}.seen as select concat_ws(' ', {settings});")
    odd = (
        "-c default_transaction_isolation=serializable -c default_transaction_read_only=on "
        "-c search_path=public -c statement_timeout=60s -c lock_timeout=1h -c client_encoding=latin1"
    )
    with psycopg.connect(dsn, options=odd, autocommit=True) as conn:
        migrate(conn, TRIAL, known)
        [seen] = conn.execute("select * from trial.seen").fetchall()
        assert seen == ("read committed pg_catalog, pg_temp 0 10s UTF8",)
        assert conn.execute("show lock_timeout").fetchone() == ("1h",)


def test_a_name_without_a_schema_ends_up_nowhere(conn: psycopg.Connection, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="pg_catalog"):
        migrate(conn, TRIAL, migrations(tmp_path, "create table stray (id int);"))


def test_a_connection_inside_a_transaction_is_refused(other: psycopg.Connection, tmp_path: Path) -> None:
    other.execute("select 1")
    with pytest.raises(WrongConnection, match="without an open transaction"):
        migrate(other, TRIAL, migrations(tmp_path, NOTES))


def test_a_connection_without_autocommit_is_fine(other: psycopg.Connection, tmp_path: Path) -> None:
    migrate(other, TRIAL, migrations(tmp_path, NOTES))
    other.rollback()
    assert bodies(other) == []


@pytest.mark.requirement("S2.6")
def test_a_newer_database_that_still_serves_this_code_is_left_alone(
    conn: psycopg.Connection, tmp_path: Path
) -> None:
    newer = migrations(tmp_path, NOTES, ROWS, "select 3;")
    migrate(conn, TRIAL, newer)
    done = migrate(conn, TRIAL, newer[:1])
    assert (done.from_version, done.to_version, done.applied) == (3, 3, ())


@pytest.mark.requirement("S2.6")
def test_a_newer_database_that_needs_newer_code_is_refused(conn: psycopg.Connection, tmp_path: Path) -> None:
    newer = migrations(tmp_path, NOTES, ROWS, "-- min_code: 2\nselect 3;")
    migrate(conn, TRIAL, newer)
    migrate(conn, TRIAL, newer[:2])
    with pytest.raises(CodeOutdated, match="knows schema 2 or later, this release knows 1: upgrade Holdfast"):
        migrate(conn, TRIAL, newer[:1])


def test_a_text_that_was_altered_after_it_was_applied_is_noticed(
    conn: psycopg.Connection, tmp_path: Path
) -> None:
    migrate(conn, TRIAL, migrations(tmp_path, NOTES, ROWS))
    altered = migrations(tmp_path, NOTES, f"{ROWS}-- afterthought\n")
    assert [str(each) for each in look(conn, TRIAL, altered).altered] == ["0002_step"]
    assert look(conn, TRIAL, altered[:1]).altered == ()


def test_a_lock_that_is_never_free_is_given_up_and_leaves_everything_as_it_was(
    conn: psycopg.Connection, other: psycopg.Connection, tmp_path: Path
) -> None:
    migrate(conn, TRIAL, migrations(tmp_path, NOTES))
    other.execute("select * from trial.note")  # a reader in a transaction that stays open
    known = migrations(tmp_path, NOTES, ROWS, "alter table {schema}.note add extra int;")
    with pytest.raises(MigrationBlocked, match=r"0003_step\.sql waited longer than 50ms for a lock"):
        migrate(conn, TRIAL, known, lock_timeout=SOON, attempts=1)
    assert (bodies(conn), look(conn, TRIAL, known).found.version) == ([], 1)


def test_a_lock_that_becomes_free_between_two_attempts_is_taken(
    conn: psycopg.Connection, other: psycopg.Connection, tmp_path: Path
) -> None:
    migrate(conn, TRIAL, migrations(tmp_path, NOTES))
    other.execute("select * from trial.note")
    heard: list[str] = []

    def leave_on_the_second_attempt(migration: Migration) -> None:
        heard.append(str(migration))
        if len(heard) == 2:
            other.rollback()

    known = migrations(tmp_path, NOTES, "alter table {schema}.note add extra int;")
    done = migrate(conn, TRIAL, known, lock_timeout=SOON, attempts=2, on_apply=leave_on_the_second_attempt)
    assert heard == ["0002_step", "0002_step"]
    assert [str(each) for each in done.applied] == ["0002_step"]


def test_another_process_that_goes_on_migrating_is_named_as_the_reason(
    conn: psycopg.Connection, dsn: str, tmp_path: Path
) -> None:
    known = migrations(tmp_path, NOTES)

    def meanwhile(_: Migration) -> None:
        with own_connection(Dsn.parse(dsn)) as second:
            with pytest.raises(MigrationBlocked, match="another process was still migrating it after 50ms"):
                migrate(second, TRIAL, known, lock_timeout=SOON, attempts=1)
            assert migrate(second, Schema("trial2"), known, lock_timeout=SOON).to_version == 1

    assert migrate(conn, TRIAL, known, on_apply=meanwhile).to_version == 1


def test_a_table_of_another_program_is_not_taken_for_ours(conn: psycopg.Connection, tmp_path: Path) -> None:
    conn.execute("create schema trial; create table trial.migration (id text)")
    with pytest.raises(SchemaError, match="table of another program"):
        migrate(conn, TRIAL, migrations(tmp_path, NOTES))


def test_a_connection_that_is_lost_half_way_is_reported_as_such(
    conn: psycopg.Connection, other: psycopg.Connection, tmp_path: Path
) -> None:
    def cut(_: Migration) -> None:
        other.execute("select pg_terminate_backend(%s, 5000)", [conn.info.backend_pid])

    with pytest.raises(ConnectionLost, match='run "holdfast migrate" again'):
        migrate(conn, TRIAL, migrations(tmp_path, NOTES), on_apply=cut)
    assert not has_schema(other)


@pytest.mark.requirement("S2.6")
def test_a_database_that_cannot_be_reached_is_named_without_its_password() -> None:
    nobody = Dsn.parse("postgresql://me:geheim@127.0.0.1:1/shop")
    with (
        pytest.raises(ConnectionFailed, match=r"no connection to 127\.0\.0\.1:1/shop") as caught,
        own_connection(nobody),
    ):
        pass
    assert "geheim" not in str(caught.value)
