"""`holdfast migrate --sql`: the script does what migrating does, and nothing on another database."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from holdfast.postgres.dsn import Dsn
from holdfast.postgres.embedded import find_binaries
from holdfast.postgres.migrations.runner import migrate, own_connection
from holdfast.postgres.migrations.script import script
from holdfast.postgres.migrations.standing import Standing, look
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged
from migrations.migration_folders import NOTES, ROWS, TRIAL, migrations
from migrations.schema_dumps import dump

Psql = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def psql(dsn: str) -> Psql:
    def run(text: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [find_binaries().program("psql"), "-X", "-v", "ON_ERROR_STOP=1", "-d", dsn],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.mark.requirement("S2.6")
def test_the_packaged_script_makes_what_migrating_makes(dsn: str, psql: Psql) -> None:
    by_hand, by_us = Schema("zebra_a"), Schema("zebra_b")
    assert psql(script(Standing(by_hand, packaged()))).returncode == 0
    with own_connection(Dsn.parse(dsn)) as conn:
        migrate(conn, by_us, packaged())
        stands = look(conn, by_hand, packaged())
    stands.judge()
    assert stands.altered == ()
    assert dump(dsn, by_hand).replace("zebra_a", "zebra_b") == dump(dsn, by_us)


def test_a_script_for_a_database_holds_only_what_it_lacks(dsn: str, psql: Psql, tmp_path: Path) -> None:
    known = migrations(tmp_path, NOTES, ROWS, "insert into {schema}.note values (2, '50 % — ü \\ :x');")
    with own_connection(Dsn.parse(dsn)) as conn:
        migrate(conn, TRIAL, known[:1])
        text = script(look(conn, TRIAL, known))
        assert "0001_step.sql" not in text
        assert psql(text).returncode == 0
        look(conn, TRIAL, known).judge()
        assert conn.execute("select body from trial.note order by id").fetchall() == [
            ("first",),
            ("50 % — ü \\ :x",),
        ]
        assert script(look(conn, TRIAL, known)) == '-- Nothing to do: schema "trial" is at 3.\n'


@pytest.mark.parametrize("state", ["behind", "ahead"])
def test_a_script_changes_nothing_in_a_database_it_was_not_written_for(
    dsn: str, psql: Psql, tmp_path: Path, state: str
) -> None:
    known = migrations(tmp_path, NOTES, ROWS, "select 3;")
    with own_connection(Dsn.parse(dsn)) as conn:
        migrate(conn, TRIAL, known[:2])
        text = script(look(conn, TRIAL, known))
        if state == "ahead":
            migrate(conn, TRIAL, known)
        else:
            conn.execute("drop schema trial cascade")
        done = psql(text)
        assert done.returncode != 0
        assert "this script starts at 2: nothing was changed" in done.stderr
        assert look(conn, TRIAL, known).found.version == (3 if state == "ahead" else 0)


def test_a_script_that_fails_half_way_changes_nothing_even_when_psql_goes_on(
    dsn: str, tmp_path: Path
) -> None:
    text = script(Standing(TRIAL, migrations(tmp_path, NOTES, "select 1 / 0;", ROWS)))
    psql = [find_binaries().program("psql"), "-X", "-d", dsn]
    subprocess.run(psql, input=text, capture_output=True, text=True, check=True, timeout=60)
    with psycopg.connect(dsn) as conn:
        assert not conn.execute("select 1 from pg_namespace where nspname = 'trial'").fetchone()
