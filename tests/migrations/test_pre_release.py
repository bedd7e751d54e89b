"""A database from before the first release has other migrations under our numbers: it is refused."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast.cli import main
from holdfast.errors import SchemaError
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.postgres.conversation import hold_blocking
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.migrations.migration import Migration, read_migrations
from holdfast.postgres.migrations.runner import migrate, own_connection
from holdfast.postgres.migrations.script import script
from holdfast.postgres.migrations.standing import look
from holdfast.postgres.schema import Schema
from holdfast.storage.fit import check_fit
from holdfast.storage.migrations import packaged
from migrations.migration_folders import NOTES, ROWS, TRIAL, folder

SENTENCE = (
    'database schema "trial" was made by a pre-release of Holdfast and cannot be migrated: '
    'drop it ("drop schema trial cascade" deletes its jobs), then run "holdfast migrate"'
)


@pytest.fixture
def conn(dsn: str, tmp_path: Path) -> Iterator[psycopg.Connection]:
    """A schema that began with a migration of another name, at a later number than the newest of ours."""
    files = {"0001_engine.sql": NOTES, **{f"{n:04}_step.sql": "select 1;" for n in range(2, 9)}}
    with own_connection(Dsn.parse(dsn)) as conn:
        migrate(conn, TRIAL, read_migrations(folder(tmp_path, files)))
        yield conn


def later() -> tuple[Migration, ...]:
    """Ours, as many as it takes for some of them to be pending."""
    known = packaged()
    return (*known, *(Migration(n, "later", ROWS, 1) for n in range(len(known) + 1, 12)))


@pytest.mark.parametrize("known", [packaged(), later()], ids=["nothing pending", "some pending"])
def test_migrate_says_to_recreate_it_and_changes_nothing(
    conn: psycopg.Connection, known: tuple[Migration, ...]
) -> None:
    with pytest.raises(SchemaError) as refused:
        migrate(conn, TRIAL, known)
    assert str(refused.value) == SENTENCE
    assert conn.execute("select count(*) from trial.note").fetchone() == (0,)
    with pytest.raises(SchemaError, match="pre-release"):
        script(look(conn, TRIAL, known))


def test_apps_and_workers_are_told_the_same(conn: psycopg.Connection) -> None:
    with pytest.raises(SchemaError) as refused:
        hold_blocking(check_fit(TRIAL), lambda statement: run_on_blocking(conn, statement))
    assert str(refused.value) == SENTENCE


@pytest.mark.usefixtures("conn")
@pytest.mark.parametrize("options", [[], ["--check"], ["--sql"]])
def test_the_command_line_prints_this_one_sentence(
    dsn: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["migrate", "--dsn", dsn, "--schema", "trial", *options])
    printed = capsys.readouterr()
    assert (printed.out, printed.err.strip()) == ("", f"holdfast: {SENTENCE}")


def test_a_database_without_an_encoding_is_not_taken_for_one_of_a_pre_release(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop database if exists ascii")
        connection.execute("create database ascii encoding 'SQL_ASCII' template template0 locale 'C'")
        other = psycopg.conninfo.make_conninfo(dsn, dbname="ascii")
        try:
            with psycopg.connect(other) as there:
                migrate(there, Schema(), packaged())
            with psycopg.connect(other) as there:
                hold_blocking(check_fit(Schema()), lambda asked: run_on_blocking(there, asked))
        finally:
            connection.execute("drop database ascii with (force)")
