"""Run by test_connection_setups.py in a process of its own, where psycopg 3 cannot be imported."""

import sys
from pathlib import Path

import django
import psycopg2.extensions
from django.conf import settings


def main(dsn: str) -> None:
    configure(dsn)
    from django.db import connection, transaction

    from borrowed.example_values import EXAMPLES, typed
    from borrowed.notes_table import ask
    from holdfast.postgres.borrowed import run_on_blocking

    with transaction.atomic():
        assert isinstance(connection.connection, psycopg2.extensions.connection)
        for cast, value in EXAMPLES:
            [(answer,)] = run_on_blocking(connection, ask(f"select %(value)s::{cast}", value=value))
            assert typed(answer) == typed(value), (cast, answer, value)
        assert run_on_blocking(connection, ask("select %(a)s::jsonb::text", a='{"b": 1}')) == [('{"b": 1}',)]
        assert run_on_blocking(connection, ask("create temporary table note (id int)")) == []
        assert connection.in_atomic_block
    connection.close()


def configure(dsn: str) -> None:
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    given = psycopg2.extensions.parse_dsn(dsn)
    database = {names[key]: value for key, value in given.items() if key in names}
    settings.configure(
        USE_TZ=False,
        TIME_ZONE="America/St_Johns",
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", **database}},
    )
    django.setup()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent))
    sys.modules["psycopg"] = None  # type: ignore[assignment]  # how Python spells "cannot be imported"
    main(sys.argv[1])
