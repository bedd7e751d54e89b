"""Every statement is prepared and described against the migrated schema: text, parameters and decoder fit."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus

from holdfast.domain.ring import SEGMENTS
from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement, StatementFile
from holdfast.storage.migrations import packaged
from holdfast.storage.statements import with_parts
from storage.every_statement import KNOWN, NAMES
from support.databases import a_copy

# A word of SQL as a schema's name: every mention must be quoted, those inside literals too.
SCHEMAS = (Schema(), Schema("user"))

_PARAMETER = re.compile(r"%\((\w+)\)s(::[\w{}.]+(?:\[\])?)?")


@pytest.fixture(scope="module")
def connection(server_dsn: str, template: str) -> Iterator[psycopg.Connection[Any]]:
    """One database for all: nothing is run, only prepared."""
    with a_copy(server_dsn, template, "described") as connection:
        for schema in SCHEMAS:
            migrate(connection, schema, packaged())
        yield connection


def filled(file: StatementFile[Any]) -> StatementFile[Any]:
    """With the literals that the planner must know."""
    taken = "taken_2 as (delete from {schema}.ready_2 where ctid = any(array(select place from picked)))"
    return file.filled(
        segments=", ".join(map(str, SEGMENTS)),
        segment="2",
        taken=taken,
        forgotten=with_parts("{part freed_and_forgotten jobs=forgettable}, "),
        otherwise=with_parts("{part unsettled_one}"),
        refused="'lost'",
        place="scheduled",
        table="wait",
        home="waiting",
        key="job",
    )


_QUOTED = re.compile(r"\$(\w*)\$.*?\$\1\$", re.DOTALL)  # the body of a DO: sent as one statement


def described(connection: psycopg.Connection[Any], file: StatementFile[Any], schema: Schema) -> Any:
    names = dict.fromkeys(match[1] for match in _PARAMETER.finditer(file.source))
    text, _ = Statement(file.name, filled(file).text(schema), names, file.decode).numbered()
    prepared = connection.pgconn.prepare(b"", text.encode())
    assert prepared.status == ExecStatus.COMMAND_OK, prepared.error_message.decode()
    return connection.pgconn.describe_prepared(b"")


def body(name: str) -> str:
    return "\n".join(line for line in KNOWN[name].source.splitlines() if not line.lstrip().startswith("--"))


def test_every_file_is_a_statement_and_every_statement_a_file() -> None:
    assert sorted(KNOWN) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_opens_with_its_contract(name: str) -> None:
    source = KNOWN[name].source
    assert source.startswith("-- "), "no contract"
    assert KNOWN[name].contract.strip().endswith((".", ":")), "a contract is made of sentences"
    assert ";" not in _QUOTED.sub("", body(name)), "one statement: a second one would not be prepared with it"


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_has_a_cast(name: str) -> None:
    """Without one a driver that sends text, and one that sends numbers, would mean different statements."""
    for parameter in _PARAMETER.finditer(body(name)):
        assert parameter[2], f"{parameter[0]} has no cast"
    assert "%" not in _PARAMETER.sub("", body(name)).replace("%%", "")


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
@pytest.mark.parametrize("name", NAMES)
def test_a_statement_is_prepared_in_any_schema(
    connection: psycopg.Connection[Any], name: str, schema: Schema
) -> None:
    described(connection, KNOWN[name], schema)


@pytest.mark.parametrize("name", NAMES)
def test_the_columns_of_a_statement_fit_its_decoder(connection: psycopg.Connection[Any], name: str) -> None:
    file = KNOWN[name]
    answer = described(connection, file, SCHEMAS[0])
    columns = [(answer.fname(place) or b"").decode() for place in range(answer.nfields)]
    if not columns:
        return  # lock and truncate say nothing
    fields = _fields(file.decode)
    if fields is None:
        assert len(columns) == 1, f"{file.decode} takes one column of {columns}"
        return
    assert len(columns) == len(fields), f"{columns} become {fields}"
    for column, field in zip(columns, fields, strict=True):
        assert _is_fitting(column, field), f"column {column} becomes {field}"


def _fields(decode: Any) -> tuple[str, ...] | None:
    """The names that a decoder gives to its columns; none for one that takes a value as it is."""
    for names in ("_fields", "__struct_fields__"):
        if hasattr(decode, names):
            return tuple(getattr(decode, names))
    return tuple(inspect.signature(decode).parameters) if inspect.isfunction(decode) else None


def _is_fitting(column: str, field: str) -> bool:
    """The same word, or one that only the statement or only Python can use."""
    renamed = {
        ("version", "ring_version"),
        ("id", "job"),
        ("holder", "job"),
        ("name", "queue"),
        ("paused_at", "at"),
        ("paused_until", "until"),
        ("pause_note", "note"),
        ("count", "moved"),
        ("count", "folded"),
        ("max", "seen"),
        ("least", "seen"),
    }
    return column == field or (column, field) in renamed


def test_the_name_of_a_statement_is_seen_in_pg_stat_activity() -> None:
    for name in NAMES:
        assert KNOWN[name].text(Schema("jobs")).startswith(f"/* jobs.{name} */ ")
