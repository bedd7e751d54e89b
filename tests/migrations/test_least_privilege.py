"""The grants of docs/how-to/least-privilege.md, run as they are written there."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors, sql
from psycopg.conninfo import make_conninfo

from holdfast.errors import MissingPrivilege
from holdfast.postgres.migrations.migration import Migration
from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.migrations.standing import look
from holdfast.storage.migrations import packaged
from migrations.migration_folders import TRIAL

PAGE = Path(__file__).parent.parent.parent / "docs/how-to/least-privilege.md"
ROLES = ["holdfast_owner", "holdfast_worker", "holdfast_reader"]

PASSWORD = "a-password-of-the-tests"

Connect = Callable[[str], psycopg.Connection]


@pytest.fixture
def suffix(dsn: str) -> Iterator[str]:
    """Makes the roles of the page our own: roles belong to the whole server."""
    suffix = f"_{uuid4().hex[:12]}"
    yield suffix
    with psycopg.connect(dsn, autocommit=True) as admin:
        for role in ROLES:
            admin.execute(
                sql.SQL("drop owned by {0} cascade; drop role {0}").format(sql.Identifier(role + suffix))
            )


@pytest.fixture
def connect_as(dsn: str, suffix: str) -> Iterator[Connect]:
    """A connection for a role of the page, after the page was followed up to the first migration."""
    text = PAGE.read_text("utf-8").replace("schema holdfast", "schema trial")
    for role in ROLES:
        text = text.replace(role, role + suffix)
    once, grants = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    connections: list[psycopg.Connection] = []

    def connect(role: str) -> psycopg.Connection:
        conn = psycopg.connect(make_conninfo(dsn, user=role + suffix, password=PASSWORD), autocommit=True)
        connections.append(conn)
        return conn

    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(once)
        for role in ROLES:
            admin.execute(
                sql.SQL("alter role {} password {}").format(sql.Identifier(role + suffix), PASSWORD)
            )
    owner = connect("holdfast_owner")
    owner.execute(grants)
    migrate(owner, TRIAL, packaged())
    yield connect
    for conn in connections:
        conn.close()


@pytest.mark.requirement("S2.6")
def test_a_worker_with_these_grants_works_and_cannot_change_tables(connect_as: Connect) -> None:
    worker = connect_as("holdfast_worker")
    look(worker, TRIAL, packaged()).judge()
    worker.execute("select trial.enqueue('mail')")
    assert worker.execute("select count(*) from trial.jobs").fetchone() == (1,)
    with worker.transaction():
        worker.execute("lock table trial.ready_0 in access exclusive mode nowait")
        worker.execute("truncate trial.ready_0")
    with pytest.raises(errors.InsufficientPrivilege):
        worker.execute("create table trial.mine (id int)")
    with pytest.raises(errors.InsufficientPrivilege):
        worker.execute("alter table trial.job add mine int")


def test_a_reader_with_these_grants_looks_and_touches_nothing(connect_as: Connect) -> None:
    reader = connect_as("holdfast_reader")
    look(reader, TRIAL, packaged()).judge()
    assert reader.execute("select count(*) from trial.jobs").fetchone() == (0,)
    with pytest.raises(errors.InsufficientPrivilege):
        reader.execute("select trial.enqueue('mail')")


def test_a_later_migration_is_for_the_owner_alone_and_its_tables_are_covered(connect_as: Connect) -> None:
    later = (*packaged(), Migration(len(packaged()) + 1, "later", "create table {schema}.later (id int);", 1))
    worker = connect_as("holdfast_worker")
    with pytest.raises(MissingPrivilege):
        migrate(worker, TRIAL, later)
    migrate(connect_as("holdfast_owner"), TRIAL, later)
    worker.execute("insert into trial.later values (1)")
