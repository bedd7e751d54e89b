"""Jobs of kinds with limits that a schedule fires: they come to the gate, each scope with its own key."""

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from holdfast import App, Limit, Scope, Use
from holdfast.errors import InvalidInput
from support.waiting import until

NOWHERE = "postgresql://127.0.0.1:1/nowhere"


@pytest.fixture
async def app(dsn: str) -> AsyncIterator[App]:
    async with App(dsn) as app:
        yield app


async def started_once(app: App) -> None:
    """So that what its code declares of kinds is stored; the worker serves none of their queues."""
    async with app.worker(queues=["elsewhere"]):
        pass


def fired(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "select j.args ->> 'account', j.limits, j.limit_keys, r.segment, r.limit_name, r.limit_key"
            "  from holdfast.job j join holdfast.ready r on r.job = j.id order by 1"
        ).fetchall()


@pytest.mark.parametrize("scopes", [2, 60])
async def test_each_scope_fires_with_a_key_of_its_own(app: App, dsn: str, scopes: int) -> None:
    """Few scopes are fired one by one, many that stand alike together."""

    @app.schedule(every="1s", scopes=[Scope(f"{n:02}", args={"account": f"{n:02}"}) for n in range(scopes)])
    @app.job(queue="unserved", limit=Limit(key="account", per_key=1))
    async def sync(account: str) -> None: ...

    async with app.worker(queues=["elsewhere"]):
        await until(lambda: len(fired(dsn)) >= scopes)
    found = fired(dsn)
    assert {row[0] for row in found} == {f"{n:02}" for n in range(scopes)}
    for account, *rest in found:
        assert rest == [["sync"], [account], 8, "sync", account]


async def test_a_schedule_that_is_run_on_request_comes_to_the_gate_too(app: App, dsn: str) -> None:
    @app.job(limit=Limit(key="account", per_key=1))
    async def sync(account: str) -> None: ...

    await started_once(app)
    await app.schedules.put("sync", sync.call("acme"), every="1h")
    await app.schedules.run_now("sync")
    assert fired(dsn) == [("acme", ["sync"], ["acme"], 8, "sync", "acme")]
    with psycopg.connect(dsn) as connection:
        knocks = connection.execute("select limit_name, key, given from holdfast.knock where key <> ''")
        assert knocks.fetchall() == [("sync", "acme", 0)]


async def test_a_limit_that_code_adds_holds_for_schedules_that_were_stored_before(app: App, dsn: str) -> None:
    @app.job
    async def sync(account: str) -> None: ...

    await app.schedules.put("sync", sync.call("acme"), every="1h")
    newer = App(dsn)

    @newer.job(name="sync", limit=Limit(total=3))
    async def limited(account: str) -> None: ...

    async with newer:
        await started_once(newer)
        await app.schedules.run_now("sync")
    [(_, limits, keys, segment, *_)] = fired(dsn)
    assert (limits, keys, segment) == (["sync"], [""], 8)


async def test_a_schedule_of_a_limited_job_brings_no_key_of_its_own(app: App) -> None:
    @app.job(limit=Limit(key="account", per_key=1))
    async def sync(account: str) -> None: ...

    with pytest.raises(InvalidInput, match=r"leave out using\(limit=…\)"):
        await app.schedules.put("sync", sync.using(limit={"sync": Use(key="vip")}).call("acme"), every="1h")
    with pytest.raises(InvalidInput, match='counts against limit "sync" by its account, and it is empty'):
        await app.schedules.put("sync", sync.call("a"), every="1h", scopes=[Scope("x", args={"account": ""})])


def test_a_declared_schedule_without_the_key_is_refused_when_a_worker_starts() -> None:
    app = App(NOWHERE)

    @app.schedule(every="1h")
    @app.job(limit=Limit(key="account", per_key=1))
    async def sync(account: str | None = None) -> None: ...

    with pytest.raises(InvalidInput, match='sync counts against limit "sync" by its account'):
        app.check()
