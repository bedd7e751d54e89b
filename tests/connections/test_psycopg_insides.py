"""What Holdfast knows about psycopg that psycopg does not promise: three attributes, and no more."""

import ast
from pathlib import Path

import psycopg

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


async def test_open_transaction_blocks_are_counted(dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        assert connection._num_transactions == 0
        async with connection.transaction():
            assert connection._num_transactions == 1


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
