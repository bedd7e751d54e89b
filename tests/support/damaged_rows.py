"""Rows damaged by hand: every column of a table with the extremes of its type."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import sql

from holdfast.worker.chores.chore import Chore, Did
from holdfast.worker.chores.chore_loop import ChoreLoop
from holdfast.worker.fetcher import Fetcher

EXTREMES: dict[str, list[str]] = {
    "smallint": ["-32768", "-1", "32767"],
    "integer": ["-2147483648", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "boolean": ["true", "false"],
    "timestamp with time zone": ["-infinity", "infinity", "4713-01-01 BC", "294276-12-31", "9999-12-31 23:59:59Z"],  # noqa: E501  # reads as one
    "interval": ["-178000000 years", "178000000 years", "0"],
    "text": ["", "an unknown word", "x" * 2000],
    "json": ["null", "[]", "1", '{"a": 1e999}'],
    "jsonb": ["null", "[]", '"text"', '{"list": [null]}', '{"schedule": 1, "plan_time": "2026-13-99T"}'],
    "ARRAY": ["{}", "{NULL}", "{{a,b},{c,d}}"],
    "USER-DEFINED": ["succeeded", "retried"],
}  # fmt: skip


def damages(connection: psycopg.Connection[Any], table: str) -> Iterator[tuple[str, str | None]]:
    """Each column with each value that it is to be damaged with."""
    columns = connection.execute(
        "select column_name, data_type, is_nullable = 'YES' from information_schema.columns"
        " where table_schema = 'holdfast' and table_name = %s order by ordinal_position",
        [table],
    ).fetchall()
    for column, type_, is_nullable in columns:
        yield from ((column, value) for value in EXTREMES[type_])
        if is_nullable:
            yield column, None


def damage(  # noqa: PLR0917  # a table, a place in it, a value
    connection: psycopg.Connection[Any],
    table: str,
    column: str,
    value: str | None,
    key: str | None = None,
    row: object = None,
) -> int:
    """How many rows it has: those whose `key` is `row`, or all. What a constraint refuses is no damage."""
    where: sql.Composable = sql.SQL("")
    if key is not None:
        where = sql.SQL(" where {} = {}").format(sql.Identifier(key), sql.Literal(row))
    change = sql.SQL("update holdfast.{} set {} = {}{}").format(
        sql.Identifier(table), sql.Identifier(column), sql.Literal(value), where
    )
    with (
        suppress(psycopg.DataError, psycopg.IntegrityError, psycopg.errors.GeneratedAlways),
        connection.transaction(),
    ):
        return connection.execute(change).rowcount
    return 0


class Turns(Counter[str]):
    """How often each chore of the leader has turned, and the fetcher claimed, since the last `clear()`."""

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        begin, claim = ChoreLoop.__init__, Fetcher._claim  # what is counted

        def begun(loop: ChoreLoop, chore: Chore, once: Any, *rest: Any) -> None:
            async def counted() -> Did:
                self[chore.name] += 1
                did: Did = await once()
                return did

            begin(loop, chore, counted, *rest)

        async def claimed(fetcher: Fetcher, *given: Any) -> bool:
            self["claim"] += 1
            return await claim(fetcher, *given)

        monkeypatch.setattr(ChoreLoop, "__init__", begun)
        monkeypatch.setattr(Fetcher, "_claim", claimed)

    def hot(self, bound: int) -> dict[str, int]:
        """Those that turned more often than that."""
        return {name: count for name, count in self.items() if count > bound}


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    turns = Turns()
    turns.watch(monkeypatch)
    return turns


def failing_chores(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records]
    return [line for line in lines if "chore" in line and "fail" in line]
