"""`app.limits`: what operators see of limits, and how they steer them while workers run."""

from collections.abc import Iterator
from datetime import UTC, datetime

import psycopg
import pytest

from holdfast import App, Breaker, Limit, Rate
from holdfast.domain.limits import LimitSpec
from holdfast.errors import InvalidInput, LimitNotFound
from holdfast.metrics.database_figures import read_figures
from holdfast.metrics.exposition import exposition
from holdfast.postgres.conversation import hold_blocking
from holdfast.storage.limit_rules import declare
from storage.limits.gates import Gate
from support.engine import SCHEMA, Engine


@pytest.fixture
def gate(dsn: str) -> Iterator[Gate]:
    with Engine.on(dsn, now=None) as engine:
        engine.worker()
        engine.hold(declare(SCHEMA, {"stripe": LimitSpec(per_key=2, total=3), "cpu": LimitSpec(total=8)}))
        yield Gate(engine)


async def test_limits_are_listed_with_what_they_allow_hold_and_keep_waiting(app: App, gate: Gate) -> None:
    gate.arrive(["acme"] * 4 + ["bolt"])
    gate.settle_down()
    cpu, stripe = await app.limits.list()
    assert (cpu.name, cpu.total, cpu.held, cpu.waiting) == ("cpu", 8, 0, 0)
    assert (stripe.per_key, stripe.total, stripe.held, stripe.waiting) == (2, 3, 3, 2)
    assert stripe.waiting_text == "2"
    assert stripe.oldest_wait is not None
    assert [each.name for each in await app.limits.list(after=cpu)] == ["stripe"]


async def test_one_limit_is_shown_with_its_keys_and_who_holds_permits(app: App, gate: Gate) -> None:
    first, *_ = gate.arrive(["acme"] * 4 + ["bolt"])
    gate.settle_down()
    gate.engine.claim(1, limit=1)
    found = await app.limits.show("stripe")
    assert [(key.key, key.held, key.allowed, key.waiting) for key in found.keys] == [
        ("acme", 2, 2, 2),
        ("bolt", 1, 2, 0),
    ]
    [holder] = found.holders
    assert (holder.job, holder.key, holder.state) == (first, "acme", "running")
    one = await app.limits.show("stripe", key="bolt")
    assert [key.key for key in one.keys] == ["bolt"]
    page = await app.limits.show("stripe", most=1)
    assert page.next is not None
    assert [key.key for key in (await app.limits.show("stripe", most=1, after=page.next)).keys] == ["bolt"]


async def test_a_limit_that_nobody_has_declared_is_named_with_what_was_meant(app: App, gate: Gate) -> None:
    with pytest.raises(LimitNotFound, match=r'a limit "strip".*did you mean "stripe"'):
        await app.limits.show("strip")
    with pytest.raises(LimitNotFound, match="holdfast limits list"):
        await app.limits.set("nothing", total=1)
    with pytest.raises(LimitNotFound):
        await app.limits.close("nothing")
    with pytest.raises(LimitNotFound):
        await app.limits.remove("nothing")


async def test_what_is_set_counts_until_it_is_reset(app: App, gate: Gate) -> None:
    status = await app.limits.set(
        "stripe", total=20, rate=Rate(90, per="10s", burst=10), by="ann", reason="launch"
    )
    assert (status.total, status.per_key, status.rate) == (20, 2, "90 per 10s, burst 10")
    status = await app.limits.set("stripe", per_key=5, rate=None)
    assert (status.total, status.per_key, status.rate) == (20, 5, None)
    assert status.overrides == {"total": 20, "per_key": 5, "rate": None}
    gate.engine.hold(declare(SCHEMA, {"stripe": LimitSpec(per_key=1, total=3)}))
    [found] = [each for each in await app.limits.list() if each.name == "stripe"]
    assert (found.total, found.per_key) == (20, 5), "a deploy does not revert it"
    status = await app.limits.reset("stripe")
    assert (status.total, status.per_key, status.overrides) == (3, 1, {})


async def test_a_handle_names_its_limit(app: App, gate: Gate) -> None:
    stripe = app.limit("stripe", per_key=2, total=3)
    assert (await app.limits.show(stripe)).limit.name == "stripe"
    with pytest.raises(InvalidInput, match="has no name yet"):
        await app.limits.show(Limit(total=1))


async def test_one_key_can_be_set_and_forgotten(app: App, gate: Gate) -> None:
    await app.limits.set("stripe", key="acme", per_key=3, weight=5)
    found = await app.limits.show("stripe")
    assert [(key.key, key.allowed, key.weight) for key in found.keys] == [("acme", 3, 5.0)]
    assert found.limit.set_keys == ("acme",)
    await app.limits.reset("stripe", key="acme")
    assert (await app.limits.show("stripe")).keys == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "nothing to set"),
        ({"total": -1}, "total is -1"),
        ({"total": "ten"}, "total is 'ten'"),
        ({"weight": 2.0}, "belongs to a key"),
        ({"key": "acme", "total": 3}, "total cannot be set for one key"),
        ({"key": "acme", "weight": 0}, "give a number above 0"),
        ({"key": "acme", "per_key": None}, "app.limits.reset"),
        ({"per_key": None}, "nothing left that is counted for each key"),
        ({"rate": "90/10s"}, "give Rate"),
        ({"breaker": Breaker, "by": ""}, "breaker is"),
    ],
)
async def test_settings_that_mean_nothing_are_refused(
    app: App, gate: Gate, given: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        await app.limits.set("stripe", **given)  # type: ignore[arg-type]


async def test_a_closed_limit_says_until_when_and_why(app: App, gate: Gate) -> None:
    status = await app.limits.close("stripe", until="2h", reason="billing is down")
    assert status.is_closed
    assert status.closed_until is not None
    assert status.closed_reason == "billing is down"
    gate.arrive(["acme"])
    assert gate.settle_down() == 0
    assert await app.limits.open("stripe") is True
    assert await app.limits.open("stripe") is False
    assert gate.settle_down() == 1
    with pytest.raises(InvalidInput, match="until"):
        await app.limits.close("stripe", until=datetime(2030, 1, 1))  # noqa: DTZ001
    assert (
        await app.limits.close("stripe", key="acme", until=datetime(2100, 1, 1, tzinfo=UTC))
    ).is_closed is False
    [key] = (await app.limits.show("stripe", key="acme")).keys
    assert key.is_closed


async def test_a_removed_limit_frees_what_waits(app: App, gate: Gate) -> None:
    gate.arrive(["acme"] * 5)
    assert gate.settle_down() == 2
    assert await app.limits.remove("stripe") is True
    assert await app.limits.remove("stripe") is False
    assert gate.settle_down() == 3
    [found] = [each for each in await app.limits.list() if each.name == "stripe"]
    assert found.is_removed


async def test_a_change_is_part_of_the_callers_transaction(app: App, gate: Gate, dsn: str) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await app.limits.set("stripe", total=1, conn=connection)
        await connection.rollback()
    assert [each.total for each in await app.limits.list()] == [8, 3]


async def test_explain_says_who_holds_the_permits_and_who_is_ahead(app: App, gate: Gate) -> None:
    gate.arrive(["acme"] * 5)
    gate.settle_down()
    first, second = (row.job for row in gate.engine.claim(1, limit=2))
    last = await app.jobs.explain(5)
    assert last.reason == "limit_reached"
    assert last.sentence == (
        f'It waits for limit "stripe", key "acme": 2 of 2 held by #{first}, #{second}; '
        "2 jobs are ahead of it."
    )
    assert last.advice == "See who holds permits and who waits with: holdfast limits show stripe"
    await app.limits.close("stripe", until="2h", reason="billing is down")
    closed = await app.jobs.explain(5)
    assert closed.reason == "limit_closed"
    assert "billing is down" in closed.sentence
    assert closed.advice == "Open it with: holdfast limits open stripe --key acme"


async def test_metrics_tell_what_is_held_and_what_waits(app: App, gate: Gate) -> None:
    gate.arrive(["acme"] * 5)
    gate.settle_down()
    await app.limits.close("cpu")
    figures = hold_blocking(read_figures(SCHEMA), gate.engine.run)
    shown = exposition(figures)
    assert 'holdfast_limit_held{limit="stripe"} 2' in shown
    assert 'holdfast_limit_waiting{limit="stripe"} 3' in shown
    assert 'holdfast_limit_closed{limit="cpu"} 1' in shown
    assert 'holdfast_limit_closed{limit="stripe"} 0' in shown


async def test_a_limit_that_live_workers_declare_is_removed_only_by_force(app: App) -> None:
    stripe = app.limit("pay", total=1)

    @app.job(limit=stripe)
    async def charge() -> None: ...

    async with app.worker():
        with pytest.raises(InvalidInput, match='limit "pay" is in use: live workers run charge'):
            await app.limits.remove("pay")
        assert await app.limits.remove("pay", force=True) is True


async def test_explain_tells_of_the_total_where_that_is_what_is_full(app: App, gate: Gate) -> None:
    gate.arrive(["acme"] * 2 + ["bolt"] * 2 + ["cove"])
    gate.settle_down()
    told = await app.jobs.explain(4)
    assert told.sentence == 'It waits for limit "stripe", key "bolt": 3 of 3 held, and 2 jobs wait.'
    await app.limits.set("stripe", total=0, per_key=0)
    told = await app.jobs.explain(4)
    assert told.reason == "limit_closed"
    assert "set to a total of 0" in told.sentence
