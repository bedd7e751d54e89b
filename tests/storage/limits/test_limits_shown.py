"""What operators see of limits: how many permits are held, by whom, and who waits."""

from datetime import timedelta

from holdfast.domain.limits import LimitSpec
from holdfast.storage.limit_rules import declare, write_key
from holdfast.storage.limits_shown import limit_holders, limit_keys, limits
from storage.limits.gates import Gate
from support.engine import SCHEMA, Engine


def test_a_limit_shows_what_is_held_and_what_waits(engine: Engine) -> None:
    engine.worker()
    gate = Gate(engine)
    engine.hold(
        declare(SCHEMA, {"stripe": LimitSpec(per_key=2, total=3), "cpu": LimitSpec(total=1)}, now=engine.now)
    )
    gate.arrive(["a"] * 4 + ["b"] * 2)
    gate.settle_down()
    gate.later(10)
    [cpu, stripe] = engine.run(limits(SCHEMA, now=engine.now))
    assert (cpu.name, cpu.held, cpu.waiting, cpu.oldest_wait) == ("cpu", 0, 0, None)
    assert (stripe.held, stripe.keys, stripe.waiting) == (3, 2, 3)
    assert stripe.oldest_wait == timedelta(seconds=10)
    assert engine.run(limits(SCHEMA, name="stripe", now=engine.now)) == [stripe]
    assert engine.run(limits(SCHEMA, after="cpu", limit=1, now=engine.now)) == [stripe]


def test_keys_are_listed_in_pages(engine: Engine) -> None:
    engine.worker()
    gate = Gate(engine)
    engine.hold(declare(SCHEMA, {"stripe": LimitSpec(per_key=1)}, now=engine.now))
    engine.run(write_key(SCHEMA, "stripe", "vip", per_key=9, weight=2, now=engine.now))
    gate.arrive(["a", "a", "b", "c"])
    gate.settle_down()
    rows = engine.run(limit_keys(SCHEMA, "stripe", now=engine.now))
    assert [(row.key, row.held, row.waiting, row.per_key) for row in rows] == [
        ("a", 1, 1, None),
        ("b", 1, 0, None),
        ("c", 1, 0, None),
        ("vip", 0, 0, 9),
    ]
    assert [row.key for row in engine.run(limit_keys(SCHEMA, "stripe", after="a", most=2))] == ["b", "c"]
    assert [row.key for row in engine.run(limit_keys(SCHEMA, "stripe", key="b"))] == ["b"]
    assert engine.run(limit_keys(SCHEMA, "stripe", key="nobody")) == []


def test_holders_are_the_jobs_that_run_and_those_that_keep_their_permits(engine: Engine) -> None:
    engine.worker()
    gate = Gate(engine)
    engine.hold(declare(SCHEMA, {"stripe": LimitSpec(per_key=2)}, now=engine.now))
    first, second, third = gate.arrive(["a", "a", "b"])
    gate.settle_down()
    assert len(engine.claim(1, limit=2)) == 2
    engine.connection.execute("delete from holdfast.ready where job = %s", [third])
    engine.connection.execute(
        "insert into holdfast.scheduled (job, run_at, attempt, holds) values (%s, now(), 1, '{stripe}')",
        [third],
    )
    rows = engine.run(limit_holders(SCHEMA, "stripe"))
    assert [(row.job, row.state, row.key) for row in rows] == [
        (first, "running", "a"),
        (second, "running", "a"),
        (third, "scheduled", "b"),
    ]
    assert [row.job for row in engine.run(limit_holders(SCHEMA, "stripe", key="b"))] == [third]
    assert engine.run(limit_holders(SCHEMA, "other")) == []
