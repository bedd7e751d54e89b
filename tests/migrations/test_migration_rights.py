"""Which role needs which rights: only a migrating role changes tables; a worker reads one table to start."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from holdfast.domain.schema_version import SchemaVersion, judge
from holdfast.errors import DatabaseError, MissingPrivilege, SchemaOutdated, StatementFailed
from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.migrations.standing import look
from holdfast.postgres.migrations.version import explained, read_version
from migrations.migration_folders import NOTES, ROWS, TRIAL, migrations

PASSWORD = "a-password-of-the-tests"


@pytest.fixture
def owner(dsn: str) -> Iterator[psycopg.Connection]:
    """A superuser, for all that the roles under test may not do."""
    with psycopg.connect(dsn, autocommit=True) as owner:
        yield owner


@pytest.fixture
def role(owner: psycopg.Connection) -> Iterator[str]:
    """A role with a login and no rights. Roles belong to the server, so it is dropped afterwards."""
    name = f"role_{uuid4().hex[:12]}"
    owner.execute(sql.SQL("create role {} login password {}").format(sql.Identifier(name), PASSWORD))
    yield name
    owner.execute(sql.SQL("drop owned by {0} cascade; drop role {0}").format(sql.Identifier(name)))


@pytest.fixture
def role_dsn(dsn: str, role: str) -> str:
    return make_conninfo(dsn, user=role, password=PASSWORD)


def grant_what_a_worker_needs(owner: psycopg.Connection, role: str) -> None:
    owner.execute(
        sql.SQL(
            "grant usage on schema trial to {0};"
            "grant select, insert, update, delete on all tables in schema trial to {0}"
        ).format(sql.Identifier(role))
    )


@pytest.mark.requirement("S2.6")
async def test_a_worker_without_a_right_to_change_tables_can_check_the_version(
    owner: psycopg.Connection, role: str, role_dsn: str, tmp_path: Path
) -> None:
    migrate(owner, TRIAL, migrations(tmp_path, NOTES, ROWS))
    grant_what_a_worker_needs(owner, role)
    statement = read_version(TRIAL)
    async with await psycopg.AsyncConnection.connect(role_dsn) as worker:
        with explained(TRIAL, known=2):
            row = await (await worker.execute(statement.text, dict(statement.params))).fetchone()
        assert row
        found = statement.decode(*row)
    assert found == SchemaVersion(2, 1, "step")
    judge(found, known=2, schema="trial")
    with psycopg.connect(role_dsn) as blocking:
        look(blocking, TRIAL, migrations(tmp_path, NOTES, ROWS)).judge()


@pytest.mark.requirement("S2.6")
def test_a_role_that_may_only_work_is_told_so_when_it_migrates(
    owner: psycopg.Connection, role: str, role_dsn: str, tmp_path: Path
) -> None:
    migrate(owner, TRIAL, migrations(tmp_path, NOTES))
    grant_what_a_worker_needs(owner, role)
    known = migrations(tmp_path, NOTES, "alter table {schema}.note add extra int;")
    with psycopg.connect(role_dsn) as worker:
        with pytest.raises(MissingPrivilege, match=r"must be owner of table note\).*as the role that owns"):
            migrate(worker, TRIAL, known)
        assert migrate(worker, TRIAL, known[:1]).applied == ()  # nothing to do needs no right


def test_a_role_that_may_not_create_a_schema_is_told_so(role_dsn: str, tmp_path: Path) -> None:
    with (
        psycopg.connect(role_dsn) as conn,
        pytest.raises(MissingPrivilege, match=r"permission denied for database.*holdfast migrate --sql"),
    ):
        migrate(conn, TRIAL, migrations(tmp_path, NOTES))


def test_the_owner_of_a_schema_migrates_without_a_right_on_the_database(
    owner: psycopg.Connection, role: str, role_dsn: str, tmp_path: Path
) -> None:
    owner.execute(sql.SQL("create schema trial authorization {}").format(sql.Identifier(role)))
    with psycopg.connect(role_dsn) as conn:
        assert migrate(conn, TRIAL, migrations(tmp_path, NOTES)).to_version == 1
        assert migrate(conn, TRIAL, migrations(tmp_path, NOTES, ROWS)).to_version == 2


def test_a_worker_that_may_not_look_is_told_what_to_grant(
    owner: psycopg.Connection, role_dsn: str, tmp_path: Path
) -> None:
    migrate(owner, TRIAL, migrations(tmp_path, NOTES))
    statement = read_version(TRIAL)
    with (
        psycopg.connect(role_dsn) as worker,
        pytest.raises(MissingPrivilege, match=r"permission denied for schema trial.*grant usage on schema"),
        explained(TRIAL, known=1),
    ):
        worker.execute(statement.text, dict(statement.params))


@pytest.mark.parametrize("is_schema_there", [True, False])
def test_a_worker_before_the_first_migration_is_told_to_migrate(
    owner: psycopg.Connection, is_schema_there: bool
) -> None:
    if is_schema_there:
        owner.execute("create schema trial")
    statement = read_version(TRIAL)
    with (
        pytest.raises(SchemaOutdated, match='run "holdfast migrate --schema trial"') as caught,
        explained(TRIAL, known=3),
    ):
        owner.execute(statement.text, dict(statement.params))
    assert (caught.value.found, caught.value.needed, caught.value.schema) == (0, 3, "trial")


def test_our_own_error_with_a_code_is_explained_like_that_of_the_driver() -> None:
    with pytest.raises(SchemaOutdated), explained(TRIAL, known=3):
        raise StatementFailed("no such table", sqlstate="42P01")


@pytest.mark.parametrize("error", [DatabaseError("no", sqlstate="57014"), psycopg.OperationalError("gone")])
def test_what_says_nothing_about_the_schema_is_passed_on(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, explained(TRIAL, known=3):
        raise error
    assert caught.value is error
