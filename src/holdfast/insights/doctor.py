"""Examines everything between an App and its jobs: the way to the server, its settings and sessions, our
rights and tables, workers and leader. Looks only; each part is looked at even if another one cannot be.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

import psycopg

from holdfast.errors import DatabaseError, HoldfastError, SchemaError, SchemaOutdated, ServerTooOld
from holdfast.insights import diagnosis
from holdfast.insights.attention import attention
from holdfast.insights.diagnosis import Finding, FindingCode, Thresholds
from holdfast.insights.overview import see
from holdfast.postgres.borrowed import run_on_blocking
from holdfast.postgres.conversation import hold_blocking
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.migrations.migration import Migration
from holdfast.postgres.migrations.standing import look
from holdfast.postgres.pooler_detection import find_pooler
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.postgres.translate import connection_failed
from holdfast.storage.doctor import dead_rows, missing_rights, old_transactions, server_facts, work_facts
from holdfast.storage.ring import look_at_ring

T = TypeVar("T")

_DELIVERY_SECONDS = 3.0
_STATEMENT_TIMEOUT = "set statement_timeout = '5s'"


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What was found in the database at `where`, worst first. `looked_at` names the parts that were."""

    where: str
    findings: tuple[Finding, ...]
    looked_at: tuple[str, ...]

    @property
    def is_healthy(self) -> bool:
        """Whether there is neither an error nor a warning."""
        return all(finding.level == "note" for finding in self.findings)


def examine(
    dsn: Dsn, schema: Schema, migrations: Sequence[Migration], limits: Thresholds | None = None
) -> DoctorReport:
    """Blocks, for some seconds if the server does not answer."""
    try:
        connection = psycopg.connect(dsn.conninfo("doctor"), autocommit=True, prepare_threshold=None)
    except psycopg.Error as error:
        finding = Finding(
            "unreachable",
            "error",
            f"{connection_failed(error, dsn)}.",
            "Check host, port, user and password of the DSN, pg_hba.conf, and that the server runs.",
        )
        return DoctorReport(dsn.where, (finding,), ("connection",))
    with connection:
        return _Examination(connection, dsn, schema, migrations, limits or Thresholds()).report()


class _Examination:
    def __init__(
        self,
        connection: psycopg.Connection,
        dsn: Dsn,
        schema: Schema,
        migrations: Sequence[Migration],
        limits: Thresholds,
    ) -> None:
        self._connection = connection
        self._dsn = dsn
        self._schema = schema
        self._migrations = migrations
        self._limits = limits
        self._is_led = False

    def report(self) -> DoctorReport:
        with suppress(psycopg.Error):
            self._connection.execute(_STATEMENT_TIMEOUT)
        parts: dict[str, Callable[[], Iterable[Finding]]] = {
            "server": self._server,
            "notifications": self._way,
            "schema": self._standing,
        }
        ours: dict[str, Callable[[], Iterable[Finding]]] = {
            "rights": self._rights,
            "transactions": self._transactions,
            "tables": self._tables,
            "work": self._work,
            "chores": self._chores,
            "ring": self._ring,
        }
        findings = [finding for name, part in parts.items() for finding in _looked(name, part)]
        if not any(finding.code in ("schema_missing", "server_too_old") for finding in findings):
            findings += [finding for name, part in ours.items() for finding in _looked(name, part)]
            parts |= ours
        findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.level))
        return DoctorReport(self._dsn.where, tuple(findings), ("connection", *parts))

    def _run(self, statement: Statement[T]) -> list[T]:
        return run_on_blocking(self._connection, statement)

    def _server(self) -> Iterator[Finding]:
        asked = datetime.now(UTC)
        [facts] = self._run(server_facts(self._schema))
        answered = datetime.now(UTC)
        yield from diagnosis.of_server(facts, here=asked + (answered - asked) / 2, limits=self._limits)

    def _way(self) -> Iterator[Finding]:
        with ThreadPoolExecutor(1) as thread:  # this one may have an event loop that runs
            pooler = thread.submit(asyncio.run, find_pooler(self._dsn.conninfo("doctor"))).result()
        yield from diagnosis.of_way(pooler, is_delivered=pooler.keeps_sessions and self._is_delivered())

    def _is_delivered(self) -> bool:
        """Sent by one connection, and heard by another."""
        channel = f"{self._schema.name}.doctor.{secrets.token_hex(8)}"
        with psycopg.connect(self._dsn.conninfo("doctor"), autocommit=True) as listening:
            listening.execute(f'listen "{channel}"'.encode())
            self._connection.execute("select pg_notify(%s, '')", [channel])
            return any(True for _ in listening.notifies(timeout=_DELIVERY_SECONDS, stop_after=1))

    def _standing(self) -> Iterator[Finding]:
        try:
            look(self._connection, self._schema, self._migrations).judge()
        except ServerTooOld as error:
            yield Finding("server_too_old", "error", f"{error}.", "Upgrade the server.")
        except SchemaError as error:
            is_there = self._connection.execute(
                "select to_regclass(%s)", [f"{self._schema.quoted}.job"]
            ).fetchone() != (None,)
            advice = 'Run "holdfast migrate".' if isinstance(error, SchemaOutdated) else ""
            code: FindingCode = "schema_outdated" if is_there else "schema_missing"
            yield Finding(code, "error", f"{error}.", advice)

    def _rights(self) -> Iterator[Finding]:
        role = self._connection.info.user
        yield from diagnosis.of_rights(self._run(missing_rights(self._schema)), self._schema, role)

    def _transactions(self) -> Iterator[Finding]:
        least = min(self._limits.locks, self._limits.transaction)
        found = self._run(old_transactions(self._schema, least=least))
        yield from diagnosis.of_transactions(found, self._schema, self._limits)

    def _tables(self) -> Iterator[Finding]:
        yield from diagnosis.of_tables(
            self._run(dead_rows(self._schema, least=self._limits.dead_rows)), self._schema
        )

    def _work(self) -> Iterator[Finding]:
        seen = hold_blocking(see(self._schema, self._limits.wait), self._run)
        yield from diagnosis.of_attention(attention(seen))

    def _chores(self) -> Iterator[Finding]:
        [facts] = self._run(work_facts(self._schema))
        self._is_led = facts.is_led
        yield from diagnosis.of_chores(facts, self._limits)

    def _ring(self) -> Iterator[Finding]:
        for ring in self._run(look_at_ring(self._schema)):
            yield from diagnosis.of_ring(ring, is_led=self._is_led, limits=self._limits)


def _looked(name: str, part: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """A part that cannot be looked at is a finding too, and keeps no other from being looked at."""
    try:
        return list(part())
    except (HoldfastError, psycopg.Error) as error:
        advice = "Give the role the rights of a worker." if isinstance(error, DatabaseError) else ""
        sentence = " ".join(str(error).split())
        return [Finding("not_looked", "warning", f"The {name} could not be looked at: {sentence}", advice)]
