"""Only `postgres/sqlstate.py` knows SQLSTATEs: no other file asks for a code or for its class in psycopg."""

import ast
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import holdfast.errors

SOURCE = Path(__file__).parents[2] / "src/holdfast"
FILES = sorted(SOURCE.rglob("*.py"))
OWNER = SOURCE / "postgres/sqlstate.py"


def _is_code(value: object) -> bool:
    try:
        # In lower case it is the name of a setting: some are called as the error that they lead to.
        return isinstance(value, str) and value == value.upper() and bool(psycopg.errors.lookup(value))
    except KeyError:
        return False


def _is_class_of_a_code(name: str) -> bool:
    """psycopg has an InvalidSchemaName, too: of an error that is also a name of ours, ours is meant."""
    code = getattr(getattr(psycopg.errors, name, None), "sqlstate", None)
    return isinstance(code, str) and not hasattr(holdfast.errors, name)


def judged(text: str) -> Iterator[str]:
    """What a file says about SQLSTATEs, with its line."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Constant(value) if _is_code(value):
                yield f"line {node.lineno}: {value!r}"
            case ast.Attribute(attr=name) | ast.alias(name=name) if _is_class_of_a_code(name):
                yield f"line {node.lineno}: {name}"
            case ast.Call(ast.Attribute(ast.Attribute(attr="sqlstate"), "startswith")):
                yield f"line {node.lineno}: the class of a code"
            case ast.Subscript(ast.Attribute(attr="sqlstate")):
                yield f"line {node.lineno}: the class of a code"


def test_the_one_file_is_found_and_seen_to_judge() -> None:
    assert OWNER in FILES
    assert any("40001" in each for each in judged(OWNER.read_text("utf-8")))


@pytest.mark.parametrize(
    "path", [path for path in FILES if path != OWNER], ids=lambda path: str(path.relative_to(SOURCE))
)
def test_no_other_file_judges_by_a_code(path: Path) -> None:
    assert list(judged(path.read_text("utf-8"))) == [], "give it a name in postgres/sqlstate.py, and ask that"


@pytest.mark.parametrize(
    "text",
    [
        'if error.sqlstate == "40P01": pass',
        'CODES = frozenset({"42P01", "3F000"})',
        "try: pass\nexcept psycopg.errors.UniqueViolation: pass",
        "from psycopg.errors import SerializationFailure",
        "from psycopg import errors as postgres\nisinstance(error, postgres.LockNotAvailable)",
        'error.sqlstate.startswith("57")',
        'error.sqlstate[:2] == "57"',
    ],
)
def test_every_way_to_judge_is_noticed(text: str) -> None:
    assert list(judged(text))
