"""Run by test_django_connections.py in a process of its own, as Django has one set of settings in each: jobs
that use its ORM, counted in the database, and a restart of Postgres in the middle.
"""

import asyncio
import sys
import threading
import time
from pathlib import Path

import django
import psycopg
from django.conf import settings
from psycopg.conninfo import conninfo_to_dict

from holdfast import App, Retry
from holdfast.postgres.embedded import EmbeddedServer
from holdfast.worker.options import WorkerOptions

TESTS = str(Path(__file__).parents[1])
NAMES = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}


def configure(dsn: str, max_age: int | None) -> None:
    given = conninfo_to_dict(dsn)
    database = {name: str(given[key]) for key, name in NAMES.items() if key in given}
    options = {"application_name": "django shop"}
    engine = {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": max_age, "OPTIONS": options}
    settings.configure(USE_TZ=True, DATABASES={"default": {**engine, **database}})
    django.setup()


def main(directory: str, max_age: int | None) -> None:
    with EmbeddedServer.start(directory, settings={"max_connections": "60"}, tcp=True) as server:
        with psycopg.connect(server.tcp_dsn) as connection:
            connection.execute("create table note (id bigint generated always as identity, text text)")
        configure(server.tcp_dsn, max_age)
        app = App(server.tcp_dsn)
        migrate(server.tcp_dsn)
        asyncio.run(trial(app, server, is_kept=max_age is None))


def migrate(dsn: str) -> None:
    from holdfast.postgres.migrations import runner
    from holdfast.postgres.schema import Schema
    from holdfast.storage.migrations import packaged

    with psycopg.connect(dsn) as connection:
        runner.migrate(connection, Schema(), packaged())


async def trial(app: App, server: EmbeddedServer, *, is_kept: bool) -> None:
    from django.db import connection, models

    from support.server_faults import restart
    from support.waiting import until

    class Note(models.Model):  # type: ignore[misc]  # Django tells no types
        text = models.TextField()

        class Meta:
            app_label = "shop"
            db_table = "note"

    threads: set[str] = set()

    @app.job(retry=Retry(max_attempts=20, backoff="50ms"))
    def note(text: str) -> None:
        threads.add(threading.current_thread().name)
        Note.objects.create(text=text)
        time.sleep(0.02)

    @app.job(retry=Retry(max_attempts=20, backoff="50ms"))
    async def note_later(text: str) -> None:
        await Note.objects.acreate(text=text)

    async def write(number: int) -> None:
        plain = [await note.enqueue(str(n)) for n in range(number)]
        later = [await note_later.enqueue(str(n)) for n in range(number // 10)]
        for job in plain + later:
            await job.result(timeout="60s")

    def connections() -> int:
        with psycopg.connect(server.tcp_dsn) as observer:
            asked = "select count(*) from pg_stat_activity where application_name = 'django shop'"
            [(count,)] = observer.execute(asked).fetchall()
            return int(count)

    async with app, app.worker(options=WorkerOptions(queues={"default": 30})):
        await write(130)
        used = connections()
        if is_kept:
            assert 1 <= used <= len(threads) + 1, used
        else:
            await until(lambda: not connections(), lambda: f"{connections()} are left", within=10)
        await asyncio.to_thread(restart, server)
        await write(130)
        assert len(threads) <= 30 + 1
    assert connection.connection is None, "the event loop's own thread has none"


if __name__ == "__main__":
    sys.path.insert(0, TESTS)
    main(sys.argv[1], None if sys.argv[2] == "kept" else 0)
    print("fine")  # noqa: T201  # for the test
