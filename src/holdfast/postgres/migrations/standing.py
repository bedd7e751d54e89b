"""How a database stands to a list of migrations: what it has, what it lacks, what was altered since."""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from holdfast.domain.schema_version import SchemaVersion, check_base, judge
from holdfast.errors import ServerTooOld
from holdfast.postgres.migrations import steps
from holdfast.postgres.migrations.migration import Migration
from holdfast.postgres.migrations.trouble import unforeseen
from holdfast.postgres.migrations.version import primary_message, refusal
from holdfast.postgres.schema import Schema
from holdfast.postgres.sqlstate import NO_TABLE

OLDEST_SERVER = 14


@dataclass(frozen=True, slots=True)
class Applied:
    """A migration as the database remembers it."""

    version: int
    name: str
    checksum: str
    min_code: int

    def __str__(self) -> str:
        return f"{self.version:04}_{self.name}"


@dataclass(frozen=True, slots=True)
class Standing:
    """One look at a database. `known` are the migrations that this code brings along."""

    schema: Schema
    known: tuple[Migration, ...]
    applied: tuple[Applied, ...] = ()

    @property
    def found(self) -> SchemaVersion:
        return SchemaVersion(
            max((each.version for each in self.applied), default=0),
            max((each.min_code for each in self.applied), default=0),
            next((each.name for each in self.applied if each.version == 1), None),
        )

    @property
    def pending(self) -> tuple[Migration, ...]:
        return tuple(each for each in self.known if each.version > self.found.version)

    @property
    def altered(self) -> tuple[Applied, ...]:
        """Applied with another text than this release has for them: harmless to run, worth a warning.

        A database that descends from other migrations is refused, not warned of.
        """
        if self.known and self.found.base not in {None, self.known[0].name}:
            return ()
        known = {each.version: (each.name, each.checksum) for each in self.known}
        return tuple(
            each
            for each in self.applied
            if known.get(each.version, (each.name, each.checksum)) != (each.name, each.checksum)
        )

    def check_base(self) -> None:
        """Raise if the database descends from other migrations: none of these may be applied to it."""
        if self.known:
            check_base(self.found, self.known[0].name, self.schema.name)

    def judge(self) -> None:
        """Raise unless this code may work with that database."""
        self.check_base()
        judge(self.found, known=len(self.known), schema=self.schema.name)


def look(conn: psycopg.Connection, schema: Schema, known: Sequence[Migration]) -> Standing:
    """Without a lock, and with no more rights than a worker has."""
    if conn.info.server_version < OLDEST_SERVER * 10_000:
        major, minor = divmod(conn.info.server_version, 10_000)
        raise ServerTooOld(found=f"{major}.{minor}", oldest=OLDEST_SERVER)
    try:
        with conn.transaction():
            return Standing(schema, tuple(known), list_applied(conn, schema))
    except psycopg.Error as error:
        if error.sqlstate in NO_TABLE:
            return Standing(schema, tuple(known))
        if meaning := refusal(error.sqlstate, primary_message(error), schema=schema, known=len(known)):
            raise meaning from error
        raise unforeseen(conn, error) from error


def list_applied(conn: psycopg.Connection, schema: Schema) -> tuple[Applied, ...]:
    with conn.cursor(row_factory=psycopg.rows.args_row(Applied)) as cursor:
        return tuple(cursor.execute(steps.list_applied(schema)))
