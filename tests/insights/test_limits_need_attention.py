"""`app.overview` and `app.doctor` tell of limits that keep jobs waiting: each in a real situation."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, Breaker, Limit, Rate, Retry
from holdfast.domain.limits import LimitSpec
from holdfast.insights.overview_records import Attention
from holdfast.storage.limit_rules import declare
from holdfast.storage.workers import lead
from storage.limits.gates import Gate
from support.engine import SCHEMA, Engine
from support.waiting import until

OF_LIMITS = ("limit_closed", "limit_stopped", "limit_keys_stopped", "limit_stuck")


@pytest.fixture
def gate(dsn: str) -> Iterator[Gate]:
    """A limit with a worker that leads and admits nobody, as one that knows no limits does."""
    with Engine.on(dsn, now=None) as engine:
        engine.run(lead(SCHEMA, worker=engine.worker()))
        engine.hold(declare(SCHEMA, {"stripe": LimitSpec(per_key=2, total=3)}))
        yield Gate(engine)


async def told(app: App, **asked: Any) -> list[Attention]:
    return [each for each in (await app.overview(**asked)).attention if each.reason in OF_LIMITS]


async def test_a_limit_that_an_operator_has_closed(app: App, gate: Gate) -> None:
    gate.arrive(["acme", "bolt"])
    await app.limits.close("stripe", until="2h", reason="billing is down")
    [one] = await told(app, patience="1ms")
    assert (one.reason, one.subject, one.level) == ("limit_closed", "stripe", "note")
    assert one.sentence.startswith('The limit "stripe" was closed ')
    assert " ago, for another 1h 59m" in one.sentence
    assert one.sentence.endswith(' ("billing is down"); 2 jobs wait.')
    assert one.advice == "Open it with: holdfast limits open stripe"
    [finding] = [each for each in (await app.doctor()).findings if each.code == "limit_closed"]
    assert (finding.level, finding.advice) == ("note", one.advice)
    await app.limits.open("stripe")
    assert await told(app) == []


async def test_a_limit_whose_closing_is_over_is_open(app: App, gate: Gate) -> None:
    await app.limits.close("stripe", until=timedelta(milliseconds=1))
    await app.limits.close("stripe", key="acme", until=timedelta(milliseconds=1))

    async def is_over() -> bool:
        return not await told(app)

    await until(is_over)
    found = await app.limits.show("stripe")
    assert (found.limit.is_closed, found.limit.closed_until, found.keys[0].is_closed) == (False, None, False)


async def test_a_limit_that_an_operator_has_set_to_nothing(app: App, gate: Gate) -> None:
    gate.arrive(["acme"])
    await app.limits.set("stripe", total=0)
    [one] = await told(app, patience="1ms")
    assert str(one) == (
        'An operator has set the limit "stripe" to 0, so that no job starts; 1 job waits. '
        "Go back to what code says with: holdfast limits reset stripe"
    )


async def test_a_limit_that_its_breaker_has_stopped(app: App) -> None:
    @app.job(limit=Limit(total=1, breaker=Breaker(failures=2, pause="1h")), retry=Retry(max_attempts=1))
    async def export(order: int) -> None:
        raise ConnectionError("the ERP is down")

    await app.enqueue_many(export.call(n) for n in range(5))
    found: list[Attention] = []
    async with app.worker():

        async def is_told() -> bool:
            found[:] = await told(app)
            return bool(found)

        await until(is_told)
    [one] = found
    assert (one.reason, one.subject, one.level) == ("limit_stopped", "export", "warning")
    assert one.sentence.startswith('The breaker of the limit "export" stopped it ')
    assert " ago after 2 failures in a row, for another 59m " in one.sentence
    assert one.sentence.endswith("; 3 jobs wait.")
    assert one.advice.endswith("holdfast limits open export")


async def test_keys_that_are_closed(app: App, gate: Gate) -> None:
    gate.arrive(["acme"])
    await app.limits.close("stripe", key="acme")
    [one] = await told(app, patience="1ms")
    assert (one.reason, one.subject, one.level) == ("limit_keys_stopped", "stripe", "note")
    assert one.sentence == (
        '1 key of the limit "stripe" is closed, or stopped by a breaker or a handler; 1 job waits for '
        "the limit."
    )


async def test_jobs_that_wait_although_nobody_holds_a_permit(app: App, gate: Gate) -> None:
    gate.arrive(["acme"] * 3)
    assert await told(app) == [], "they have just come"
    [one] = await told(app, patience="1ms")
    assert (one.reason, one.subject, one.level) == ("limit_stuck", "stripe", "warning")
    assert one.sentence.startswith('3 jobs wait for the limit "stripe", the oldest for ')
    assert one.sentence.endswith(", although no job holds a permit.")
    gate.settle_down()
    assert await told(app, patience="1ms") == [], "two run, and one waits for them"


async def test_jobs_that_nobody_serves_or_whose_queue_is_paused_are_not_stuck(app: App, gate: Gate) -> None:
    gate.arrive(["acme"])
    await app.queues.pause("default")
    assert await told(app, patience="1ms") == []
    await app.queues.resume("default")
    gate.engine.connection.execute("update holdfast.worker set kinds = '{other}'")
    assert await told(app, patience="1ms") == []


@pytest.mark.parametrize(
    "spec",
    [
        LimitSpec(rate=Rate(1, per="1h")),
        LimitSpec(rate=Rate(1, per="1h", strict=True)),
        LimitSpec(rate_per_key=Rate(1, per="1h")),
        LimitSpec(rate_per_key=Rate(1, per="1h", strict=True)),
    ],
    ids=["rate", "strict", "of a key", "strict of a key"],
)
async def test_jobs_that_wait_for_their_rate_are_not_stuck(app: App, gate: Gate, spec: LimitSpec) -> None:
    gate.engine.hold(declare(SCHEMA, {"stripe": spec}))
    gate.arrive(["acme"] * 3)
    gate.settle_down()
    [claimed] = gate.engine.claim(1)
    assert claimed.job is not None
    gate.turn()
    gate.end(claimed.job, "acme")
    gate.settle_down()
    assert gate.held() == {}, "nobody runs"
    assert gate.waiting() == 2
    assert await told(app, patience="1ms") == []
