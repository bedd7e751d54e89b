"""docs/reference/tables.md names every table, column and parameter that there is, and its examples run."""

import re
from pathlib import Path

import psycopg
import pytest

PAGE = Path(__file__).parents[2] / "docs/reference/tables.md"
SECTIONS = dict(
    re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL),
)


@pytest.fixture
def columns(dsn: str) -> dict[str, set[str]]:
    """Tables and views with their columns; partitions are their table's."""
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "select c.relname, array_agg(a.attname::text)"
            "  from pg_class c join pg_attribute a on a.attrelid = c.oid"
            " where c.relnamespace = 'holdfast'::regnamespace and c.relkind in ('r', 'p', 'v')"
            "   and not c.relispartition and a.attnum > 0 and not a.attisdropped group by 1"
        ).fetchall()
    return {table: set(names) for table, names in rows}


def test_every_table_and_column_is_described(columns: dict[str, set[str]]) -> None:
    assert columns.keys() - SECTIONS.keys() == set()
    for table, names in columns.items():
        assert names - set(re.findall(r"`(\w+)`", SECTIONS[table])) == set(), table


def test_nothing_is_described_that_is_not_there(columns: dict[str, set[str]]) -> None:
    assert SECTIONS.keys() - columns.keys() == {"enqueue", "backlog"}
    for table, names in columns.items():
        listed = re.findall(r"^\| (`.*?) \|", SECTIONS[table], re.MULTILINE)
        assert set(re.findall(r"`(\w+)`", " ".join(listed))) - names == set(), table


@pytest.mark.parametrize("function", ["enqueue", "backlog"])
def test_every_parameter_of_a_function_is_described_with_its_default(dsn: str, function: str) -> None:
    with psycopg.connect(dsn) as connection:
        [(names,)] = connection.execute(
            "select proargnames from pg_proc where proname = %s", [function]
        ).fetchall()
    assert re.findall(r"^\| `(\w+)` \|", SECTIONS[function], re.MULTILINE) == names


def test_the_partitions_are_named(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "select relname from pg_class where relispartition and relkind = 'r' order by 1"
        ).fetchall()
    assert rows == [
        ("ready_0",),
        ("ready_1",),
        ("ready_2",),
        ("ready_3",),
        ("ready_gated",),
        ("ready_parked",),
    ]
    assert all(
        f"`{name}`" in SECTIONS["ready"] for name in ("ready_0", "ready_3", "ready_gated", "ready_parked")
    )


def test_the_examples_run(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        for example in re.findall(r"```sql\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
            connection.execute(example)
