"""Wake-ups for jobs that Holdfast commits itself: sent after the commit, batched, and never blocking."""

import asyncio
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from api.observer import Observer
from holdfast import App

NOTIFIERS = """
select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity
 where datname = current_database() and position('notifier' in application_name) > 0
"""


@pytest.mark.requirement("S2.16")
async def test_a_new_job_wakes_its_queue(app: App, observer: Observer) -> None:
    @app.job(queue="mail")
    def mail() -> None: ...

    observer.listen("holdfast.ready", "holdfast.due")
    await mail.enqueue()
    assert await asyncio.to_thread(observer.hear) == ("holdfast.ready", "mail")
    await mail.using(delay="1h").enqueue()
    assert (await asyncio.to_thread(observer.hear))[0] == "holdfast.due"


@pytest.mark.requirement("S2.16")
def test_a_new_job_of_a_blocking_caller_wakes_its_queue(blocking_app: App, observer: Observer) -> None:
    @blocking_app.job(queue="mail")
    def mail() -> None: ...

    observer.listen("holdfast.ready", "holdfast.due")
    mail.enqueue_sync()
    assert observer.hear() == ("holdfast.ready", "mail")
    mail.using(delay="1h").enqueue_sync()
    assert observer.hear()[0] == "holdfast.due"


@pytest.mark.requirement("S2.26")
async def test_the_name_of_a_queue_is_only_ever_a_value(app: App, observer: Observer) -> None:
    name = """'); drop schema holdfast cascade; -- "%s" %(n)s {schema}"""

    @app.job(queue=name)
    async def work() -> str:
        return "done"

    observer.listen("holdfast.ready")
    handle = await work.enqueue()
    assert await asyncio.to_thread(observer.hear) == ("holdfast.ready", name)
    async with app.worker():
        assert await handle.result(timeout="60s") == "done"


async def test_a_lone_job_is_told_of_in_its_own_commit(app: App, observer: Observer) -> None:
    @app.job(queue="mail")
    def mail() -> None: ...

    observer.listen("holdfast.ready")
    await mail.enqueue()
    assert not observer.heard_nothing()


async def test_wake_ups_of_many_jobs_are_gathered(app: App, observer: Observer) -> None:
    @app.job(queue="mail")
    def mail() -> None: ...

    @app.job
    def other() -> None: ...

    observer.listen("holdfast.ready")
    await asyncio.gather(*(job.enqueue() for job in [mail, other] * 250))
    await app.close()  # what was gathered is said before
    observer.connection.execute("select")
    heard = [note.payload for note in observer.connection.notifies(timeout=0)]
    assert set(heard) == {"mail", "default"}
    assert len(heard) < 250


async def test_closing_says_what_is_still_to_be_said(app: App, observer: Observer) -> None:
    @app.job(queue="mail")
    def mail() -> None: ...

    observer.listen("holdfast.ready")
    for _ in range(3):
        await mail.enqueue()
        await app.close()
        assert await asyncio.to_thread(observer.hear) == ("holdfast.ready", "mail")


async def test_enqueueing_goes_on_when_the_notifiers_connection_is_gone(app: App, observer: Observer) -> None:
    @app.job(queue="mail")
    def mail() -> None: ...

    observer.listen("holdfast.ready")
    await mail.enqueue()
    await asyncio.to_thread(observer.hear)
    assert observer.value(NOTIFIERS) == 1
    async with asyncio.timeout(60):
        while observer.heard_nothing():  # and wake-ups come again by themselves
            await app.enqueue_many([mail.call()])


def test_blocking_enqueueing_goes_on_when_the_notifiers_connection_is_gone(
    blocking_app: App, observer: Observer
) -> None:
    @blocking_app.job(queue="mail")
    def mail() -> None: ...

    observer.listen("holdfast.ready")
    blocking_app.enqueue_many_sync([mail.call()])
    observer.hear()
    assert observer.value(NOTIFIERS) == 1
    for _ in range(1_000):
        blocking_app.enqueue_many_sync([mail.call()])
        if not observer.heard_nothing():
            break
    else:
        pytest.fail("wake-ups never came back")


def test_a_job_that_is_committed_is_no_error_where_no_connection_is_left_for_its_wake_up(
    dsn: str, observer: Observer
) -> None:
    """A caller that gets an error enqueues the job again."""
    role = f"one_connection_{uuid4().hex[:12]}"
    observer.connection.execute(f"create role {role} login password 'one' connection limit 1")
    observer.connection.execute(f"grant usage on schema holdfast to {role}")
    observer.connection.execute(f"grant all on all tables in schema holdfast to {role}")
    observer.connection.execute(f"grant all on all sequences in schema holdfast to {role}")
    app = App(make_conninfo(dsn, user=role, password="one"))

    @app.job
    def mail() -> None: ...

    try:
        for _ in range(20):
            mail.enqueue_sync()
        assert observer.count() == 20
    finally:
        app.close_sync()
        observer.until_alone()
        observer.connection.execute(f"drop owned by {role}")
        observer.connection.execute(f"drop role {role}")
