"""Workers store the limits of their code before they run jobs; jobs by name and reruns have them too."""

from typing import Any

import pytest

from api.observer import Observer
from holdfast import App, Flow, Limit, Use
from holdfast.errors import InvalidInput
from holdfast.worker.worker import Worker
from support.waiting import until


def limits_of(observer: Observer, job: int) -> tuple[Any, ...]:
    [row] = observer.connection.execute(
        "select limits, limit_keys, limit_costs from holdfast.job where id = %s", [job]
    )
    return tuple(row)


async def test_a_worker_declares_its_limits_before_it_is_known(
    app: App, observer: Observer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stripe = app.limit("stripe", per_key=5, total=100)

    @app.job(limit=stripe.by("account"))
    async def charge(account: str, region: str = "eu") -> None: ...

    @app.job(limit=Limit(total=3))
    async def render() -> None: ...

    seen: list[Any] = []
    serve = Worker._serve

    async def watched(self: Worker, services: Any) -> None:
        seen.extend(observer.connection.execute("select name, total from holdfast.limit_rule order by 1"))
        seen.extend(observer.connection.execute("select name, limits from holdfast.kind order by 1"))
        seen.extend(observer.connection.execute("select id from holdfast.worker"))
        await serve(self, services)

    monkeypatch.setattr(Worker, "_serve", watched)
    async with app.worker():
        pass
    assert seen == [
        ("render", 3),
        ("stripe", 100),
        ("charge", [{"by": ["account"], "limit": "stripe"}]),
        ("render", [{"by": [], "limit": "render"}]),
    ]


async def test_a_worker_without_limits_writes_none(app: App, observer: Observer) -> None:
    @app.job
    async def plain() -> None: ...

    async with app.worker():
        await until(lambda: bool(list(observer.connection.execute("select 1 from holdfast.kind"))))
    assert list(observer.connection.execute("select limits from holdfast.kind")) == [(None,)]
    assert list(observer.connection.execute("select * from holdfast.limit_rule")) == []


async def test_a_job_by_name_has_the_limits_of_its_kind(app: App, observer: Observer) -> None:
    @app.job(limit=Limit(key=["account", "region"], per_key=1))
    async def charge(account: str, region: str = "eu") -> None: ...

    async with app.worker(queues=["other"]):
        pass
    done = await app.kinds.enqueue("charge", {"account": "acme"})
    assert limits_of(observer, done.job) == (["charge"], ['["acme", "eu"]'], None)
    with pytest.raises(InvalidInput, match='charge counts against limit "charge" by its region'):
        await app.kinds.enqueue("charge", {"account": "acme", "region": ""})


async def test_a_rerun_has_the_limits_that_its_code_has_by_now(app: App, observer: Observer) -> None:
    @app.job(limit=Limit(key="account", per_key=1))
    async def charge(account: str) -> None: ...

    own = await charge.using(limit={"charge": Use(key="vip", cost=3)}).enqueue("acme")
    async with app.worker(queues=["other"]):
        pass
    again = await app.jobs.rerun(own.id)
    edited = await app.jobs.rerun(own.id, args={"account": "other"})
    assert limits_of(observer, again) == (["charge"], ["vip"], [3])
    assert limits_of(observer, edited) == (["charge"], ["other"], None)
    observer.connection.execute("update holdfast.kind set limits = null")
    assert limits_of(observer, await app.jobs.rerun(own.id)) == (None, None, None)
    observer.connection.execute("delete from holdfast.kind")
    assert limits_of(observer, await app.jobs.rerun(own.id)) == (["charge"], ["vip"], [3])


def test_a_flow_that_would_wait_for_itself_is_refused_when_a_worker_starts() -> None:
    app = App("postgresql://127.0.0.1:1/nowhere")
    shared = app.limit("shared", total=3, hold="job")

    @app.job(limit=shared)
    async def child() -> None: ...

    @app.flow(limit=shared)
    async def parent(flow: Flow) -> None:
        await flow.call(child)

    message = r'parent holds a permit of limit "shared" .* calls child, .*Use hold="run"'
    with pytest.raises(InvalidInput, match=message):
        app.check()


def test_a_flow_that_lets_go_while_it_waits_may_call_a_child_of_its_limit() -> None:
    app = App("postgresql://127.0.0.1:1/nowhere")
    shared = app.limit("shared", total=3)
    strict = app.limit("strict", per_key=1, hold="job")

    @app.job(limit=[shared, strict.by("account")])
    async def child(account: str) -> None: ...

    @app.flow(limit=[shared, strict.by("customer")])
    async def parent(flow: Flow, customer: str) -> None:
        await flow.call(child, "another")

    app.check()


async def test_a_flow_that_would_wait_for_its_own_key_fails(app: App) -> None:
    strict = app.limit("strict", per_key=1, hold="job")

    @app.job(limit=strict.by("account"))
    async def child(account: str) -> str:
        return account

    @app.flow(limit=strict.by("customer"))
    async def parent(flow: Flow, customer: str, account: str) -> str:
        return await flow.call(child, account)

    async with app.worker():
        fine, bad = await parent.enqueue("acme", "other"), await parent.enqueue("acme", "acme")
        assert await fine.result(timeout="30s") == "other"
        with pytest.raises(Exception, match=r"calls child, which needs one too: it would wait for itself"):
            await bad.result(timeout="30s")
