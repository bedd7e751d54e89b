"""The facts that `holdfast doctor` judges: about the server, its sessions, our rights, tables and workers."""

from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement


class ServerFacts(NamedTuple):
    """`settings` are texts such as `max_wal_size=1024 MB`; `unseen` sessions show nothing to this role."""

    version: int
    encoding: str
    is_standby: bool
    now: datetime
    connections_left: int
    notifications: float
    unseen: int
    settings: list[str]


class OldTransaction(NamedTuple):
    """`pid` is None for a `prepared` transaction. `tables` are those of ours that it has locked."""

    pid: int | None
    prepared: str | None
    role: str
    program: str
    state: str
    lasting: timedelta
    tables: list[str]


class MissingRights(NamedTuple):
    table: str
    missing: list[str]


class DeadRows(NamedTuple):
    table: str
    dead: int
    live: int
    vacuumed_at: datetime | None


class WorkFacts(NamedTuple):
    is_led: bool
    promote_lag: timedelta | None
    prune_lag: timedelta | None
    fold_lag: timedelta | None
    plan_lag: timedelta | None
    quiet: list[int]


_SERVER = statement("doctor_server", ServerFacts, is_repeatable=True)
_SESSIONS = statement("doctor_sessions", OldTransaction, is_repeatable=True)
_PRIVILEGES = statement("doctor_privileges", MissingRights, is_repeatable=True)
_TABLES = statement("doctor_tables", DeadRows, is_repeatable=True)
_WORK = statement("doctor_work", WorkFacts, is_repeatable=True)


def server_facts(schema: Schema, *, now: datetime | None = None) -> Statement[ServerFacts]:
    return _SERVER.with_params(schema, now=now)


def old_transactions(
    schema: Schema, *, least: timedelta, now: datetime | None = None
) -> Statement[OldTransaction]:
    return _SESSIONS.with_params(schema, least=least, now=now)


def missing_rights(schema: Schema) -> Statement[MissingRights]:
    return _PRIVILEGES.with_params(schema)


def dead_rows(schema: Schema, *, least: int) -> Statement[DeadRows]:
    return _TABLES.with_params(schema, least=least)


def work_facts(schema: Schema, *, now: datetime | None = None) -> Statement[WorkFacts]:
    return _WORK.with_params(schema, now=now)
