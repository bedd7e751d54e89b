"""What Holdfast knows about psycopg that psycopg does not promise: three attributes, and no more."""

import ast
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast

ROOT = Path(holdfast.__file__).parent


def test_three_attributes_of_psycopg_are_known_that_it_does_not_promise(dsn: str) -> None:
    """docs/explanation/connection-pool.md says what each is worth."""
    with psycopg.connect(dsn) as connection:
        names = {*dir(connection), *dir(connection.cursor()), *dir(connection._prepared)}
        private = {name for name in names if name.startswith("_") and not name.startswith("__")}
        used = {name for path in ROOT.rglob("*.py") for name in _of_others(path)}
        assert used & private == {"_prepared", "_num_transactions", "_names"}


def test_no_module_of_psycopg_is_imported_that_it_does_not_promise() -> None:
    for path in ROOT.rglob("*.py"):
        for name in _imported(path):
            parts = name.split(".")
            assert parts[0] != "psycopg_pool", path
            assert parts[0] != "psycopg" or not any(part.startswith("_") for part in parts), (path, name)


CHANGED = (
    "psycopg {version} does not count open transaction() blocks in `_num_transactions` any more. Three "
    "places lean on it: `_has_begun` in worker/committing_block.py (without it, a handler's own connection "
    "that is inside a transaction() is not refused, and its job is reported as succeeded before it is "
    "committed), and `LentConnection` and `BlockingFace` in postgres/. See "
    "docs/explanation/connection-pool.md"
)


@pytest.mark.parametrize("is_awaited", [True, False])
async def test_open_transaction_blocks_are_counted(dsn: str, is_awaited: bool) -> None:
    def count(connection: Any) -> int:
        number = getattr(connection, "_num_transactions", None)
        assert isinstance(number, int), CHANGED.format(version=psycopg.__version__)
        return number

    if is_awaited:
        async with await psycopg.AsyncConnection.connect(dsn) as awaited:
            counts = [count(awaited)]
            async with awaited.transaction():
                counts.append(count(awaited))
                async with awaited.transaction():
                    counts.append(count(awaited))
            counts.append(count(awaited))
    else:
        with psycopg.connect(dsn) as blocking:
            counts = [count(blocking)]
            with blocking.transaction():
                counts.append(count(blocking))
                with blocking.transaction():
                    counts.append(count(blocking))
            counts.append(count(blocking))
    assert counts == [0, 1, 2, 0], CHANGED.format(version=psycopg.__version__)


@pytest.mark.parametrize("is_awaited", [True, False])
async def test_psycopg_refuses_to_commit_while_that_count_is_not_zero(dsn: str, is_awaited: bool) -> None:
    """So a block on a connection of ours, which sets it, cannot be committed by its handler."""
    if is_awaited:
        async with await psycopg.AsyncConnection.connect(dsn) as awaited:
            awaited._num_transactions = 1
            with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
                await awaited.commit()
            awaited._num_transactions = 0
    else:
        with psycopg.connect(dsn) as blocking:
            blocking._num_transactions = 1
            with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
                blocking.commit()
            blocking._num_transactions = 0


def test_a_shared_record_of_prepared_statements_gives_no_name_twice(dsn: str) -> None:
    with psycopg.connect(dsn, prepare_threshold=0) as connection:
        other = psycopg.Connection(connection.pgconn)
        other._prepared = connection._prepared
        for number, each in enumerate((connection, other, connection, other)):
            row = each.execute(f"select {number % 3}".encode()).fetchone()
            assert row == (number % 3,)
        names = connection.execute("select count(*) from pg_prepared_statements", prepare=False).fetchone()
        assert names == (3,)


def _of_others(path: Path) -> set[str]:
    """Attributes of anything but `self`, and also of `self` in a class that is one of psycopg's."""
    tree = ast.parse(path.read_text())
    inherited = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and _is_of_psycopg(node)]
    found = {node.attr for cls in inherited for node in ast.walk(cls) if isinstance(node, ast.Attribute)}
    return found | {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"})
    }


def _is_of_psycopg(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).startswith("psycopg.") for base in node.bases)


def _imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names
