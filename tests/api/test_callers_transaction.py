"""`using(conn=…)`: the caller's transaction decides about the job and about its wake-up."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from api.observer import Observer
from borrowed.caller_connections import CALLERS, Caller
from holdfast import App, Group, Handle, Job, Rate, Use
from holdfast.errors import DuplicateJob, JobNotFound, SchemaNotFound, WrongConnection

KINDS = [
    "psycopg",
    "async psycopg",
    "asyncpg",
    "Session, psycopg",
    "Session, psycopg2",
    "AsyncSession, asyncpg",
    "AsyncSession, psycopg",
    "Django",
]


@pytest.fixture(params=KINDS)
def caller(request: pytest.FixtureRequest, dsn: str) -> Iterator[Caller]:
    with CALLERS[request.param](dsn) as caller:
        yield caller


@pytest.fixture
def mail() -> Job[[int], None]:
    """A job of an App without a database: a caller that brings a connection needs no other."""
    app = App("postgresql://127.0.0.1:1/nowhere")

    @app.job(queue="mail")
    def mail(user: int) -> None: ...

    return mail


def enqueue(mail: Job[[int], None], caller: Caller, user: int, **options: Any) -> Handle[None]:
    job = mail.using(conn=caller.connection, **options)
    if caller.wait is None:
        return job.enqueue_sync(user)
    handle: Handle[None] = caller.wait(job.enqueue(user))
    return handle


def enqueue_many(mail: Job[[int], None], caller: Caller, users: range) -> list[Handle[Any]]:
    calls = [mail.call(user) for user in users]
    if caller.wait is None:
        return mail.app.enqueue_many_sync(calls, conn=caller.connection)
    handles: list[Handle[Any]] = caller.wait(mail.app.enqueue_many(calls, conn=caller.connection))
    return handles


def test_a_job_with_limits_comes_to_the_gate_with_the_callers_commit(
    caller: Caller, observer: Observer
) -> None:
    app = App("postgresql://127.0.0.1:1/nowhere")
    stripe = app.limit("stripe", per_key=1, rate_per_key=Rate(9, per="1s"))

    @app.job(limit=[stripe.by("user"), app.limit('a "quoted", name', total=1)])
    def mail(user: int) -> None: ...

    observer.listen("holdfast.gate")
    one = enqueue(mail, caller, 7, limit={stripe: Use(key="{a,b}", cost=3)})
    unique = enqueue(mail, caller, 8, unique="once")
    many = enqueue_many(mail, caller, range(9, 11))
    assert observer.count() == 0
    assert observer.heard_nothing()
    caller.commit()
    assert observer.hear() == ("holdfast.gate", "")
    rows = observer.connection.execute(
        "select j.id, j.limit_keys, j.limit_costs, r.segment, r.limit_name, r.next_limit, r.next_key"
        "  from holdfast.job j join holdfast.ready r on r.job = j.id order by 1"
    ).fetchall()
    at_first = (8, 'a "quoted", name', "stripe")
    assert rows == [
        (one.id, ["", "{a,b}"], [1, 3], *at_first, "{a,b}"),
        (unique.id, ["", "8"], None, *at_first, "8"),
        (many[0].id, ["", "9"], None, *at_first, "9"),
        (many[1].id, ["", "10"], None, *at_first, "10"),
    ]


@pytest.mark.requirement("S2.9", "S2.16")
def test_a_job_and_its_wake_up_come_with_the_callers_commit(
    caller: Caller, mail: Job[[int], None], observer: Observer
) -> None:
    observer.listen("holdfast.ready")
    handles = [enqueue(mail, caller, 1), *enqueue_many(mail, caller, range(2, 5))]
    assert observer.count() == 0
    assert observer.heard_nothing()
    caller.commit()
    assert [job["id"] for job in observer.jobs()] == [handle.id for handle in handles]
    assert observer.hear() == ("holdfast.ready", "mail")


@pytest.mark.requirement("S2.9")
def test_a_job_goes_with_the_callers_rollback(
    caller: Caller, mail: Job[[int], None], observer: Observer
) -> None:
    observer.listen("holdfast.ready", "holdfast.due")
    enqueue(mail, caller, 1)
    enqueue(mail, caller, 2, delay="1h")
    enqueue_many(mail, caller, range(3, 5))
    caller.rollback()
    assert observer.count() == 0
    assert observer.heard_nothing()


def test_a_savepoint_decides_for_its_own_part(
    caller: Caller, mail: Job[[int], None], observer: Observer
) -> None:
    def twice() -> None:
        with caller.nested():
            enqueue(mail, caller, 2)
            enqueue(mail, caller, 3, unique="k", on_conflict="raise")

    enqueue(mail, caller, 1, unique="k")
    with pytest.raises(DuplicateJob):
        twice()
    caller.commit()
    assert [job["args"]["user"] for job in observer.jobs()] == [1]


async def test_a_handle_on_what_was_rolled_back_finds_no_job(dsn: str, app: App) -> None:
    @app.job
    def work() -> None: ...

    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        handle = await work.using(conn=connection).enqueue()
        await connection.rollback()
    with pytest.raises(JobNotFound):
        await handle.status()


async def test_a_later_job_tells_the_leader(dsn: str, app: App, observer: Observer) -> None:
    @app.job
    def work() -> None: ...

    observer.listen("holdfast.ready", "holdfast.due")
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await work.using(conn=connection, delay="1h").enqueue()
    assert observer.hear()[0] == "holdfast.due"
    assert observer.heard_nothing()


async def test_a_blocking_connection_is_no_awaited_one(dsn: str, app: App, observer: Observer) -> None:
    @app.job
    def work() -> None: ...

    with psycopg.connect(dsn) as blocking:
        with pytest.raises(WrongConnection, match="blocking"):
            await work.using(conn=blocking).enqueue()
        with pytest.raises(WrongConnection):
            await app.enqueue_many([work.call()], conn=blocking)
    async with await psycopg.AsyncConnection.connect(dsn) as awaited:
        with pytest.raises(WrongConnection, match="await"):
            work.using(conn=awaited).enqueue_sync()
        with pytest.raises(WrongConnection):
            app.enqueue_many_sync([work.call()], conn=awaited)
    assert observer.count() == 0


@pytest.mark.parametrize("conn", ["postgresql://localhost/shop", 5, object()])
async def test_what_is_no_connection_is_refused(conn: object, app: App) -> None:
    @app.job
    def work() -> None: ...

    with pytest.raises(WrongConnection):
        await work.using(conn=conn).enqueue()
    with pytest.raises(WrongConnection):
        work.using(conn=conn).enqueue_sync()


async def test_a_connection_to_another_database_says_what_is_missing(server_dsn: str, app: App) -> None:
    @app.job
    def work() -> None: ...

    with psycopg.connect(server_dsn) as connection, pytest.raises(SchemaNotFound, match="holdfast migrate"):
        work.using(conn=connection).enqueue_sync()


def group(mail: Job[[int], None], caller: Caller) -> Group[None]:
    """A group with members that are alike, one with a delay and one with a unique key, and what follows."""
    calls = [
        *(mail.call(user) for user in range(3)),
        mail.using(delay="1h").call(3),
        mail.using(unique="four").call(4),
    ]
    options: dict[str, Any] = {"name": "night", "tags": ["a"], "conn": caller.connection}
    if caller.wait is None:
        return mail.app.group_sync(calls, then=mail.call(9), on_failure=mail.call(8), **options)
    made: Group[None] = caller.wait(
        mail.app.group(calls, then=mail.call(9), on_failure=mail.call(8), **options)
    )
    return made


def test_a_group_with_its_members_comes_with_the_callers_commit(
    caller: Caller, mail: Job[[int], None], observer: Observer
) -> None:
    made = group(mail, caller)
    assert observer.value("select count(*) from holdfast.job_group") == 0
    caller.commit()
    assert observer.value("select array_agg(id) from holdfast.job_group where members = 5") == [made.id]
    assert observer.value("select array_agg(distinct parent) from holdfast.job") == [made.id]
    places = "array_agg(job order by place) = array_agg(job order by job)"
    assert observer.value(f"select {places} from holdfast.group_member")


def test_a_group_goes_with_the_callers_rollback(
    caller: Caller, mail: Job[[int], None], observer: Observer
) -> None:
    made = group(mail, caller)
    if caller.wait is None:
        mail.app.groups.cancel_sync(made.id, conn=caller.connection)
    else:
        caller.wait(mail.app.groups.cancel(made.id, conn=caller.connection))
    caller.rollback()
    assert observer.count() == 0
    for table in ("job_group", "group_member", "audit"):
        assert observer.value(f"select count(*) from holdfast.{table}") == 0
