"""The page for users is run as it stands."""

import ast
import asyncio
import inspect
import re
from pathlib import Path
from types import CodeType, FunctionType
from urllib.parse import quote

import psycopg

from borrowed.caller_connections import django_on, parts
from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-your-own-transaction.md"


def as_url(dsn: str) -> str:
    """As the examples have it, where the tests' own may be of the other form."""
    given = {key: quote(str(value), safe="") for key, value in parts(dsn).items()}
    host, user, name = given.pop("host"), given.pop("user"), given.pop("dbname")
    return f"postgresql://{user}@/{name}?host={host}&" + "&".join(f"{k}={v}" for k, v in given.items())


def test_every_example_commits_what_it_wrote(dsn: str, observer: psycopg.Connection) -> None:
    with psycopg.connect(dsn) as owner:
        migrate(owner, Schema(), packaged())
    observer.execute("drop table if exists orders; create table orders (item text)")
    imports, *examples = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert len(examples) == 11
    with django_on(dsn):
        for number, example in enumerate(examples, 1):
            run(imports + example, dsn=as_url(dsn))
            counts = observer.execute(
                "select (select count(*) from orders), (select count(*) from holdfast.jobs)"
            )
            assert counts.fetchone() == (number, number), example


def run(source: str, **names: object) -> None:
    code = compile(source, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(code, CodeType)
    pending = FunctionType(code, names)()
    if inspect.iscoroutine(pending):
        with asyncio.Runner() as runner:
            runner.run(pending)
