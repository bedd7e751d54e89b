"""Fixtures of the codec's tests."""

from collections.abc import Iterator

import psycopg
import pytest

from codec.support import Stored


@pytest.fixture(scope="session")
def stored(server_dsn: str) -> Iterator[Stored]:
    """JSON text as Postgres gives it back: keys sorted, numbers as it writes them."""
    with psycopg.connect(server_dsn, autocommit=True) as connection:

        def keep(text: str) -> str:
            row = connection.execute("select %s::jsonb::text", (text,)).fetchone()
            assert row is not None
            return str(row[0])

        yield keep
