"""What limits allow: a deploy changes what code declares, and never what an operator has set."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.domain.limits import Breaker, LimitSpec, Rate, to_json
from holdfast.storage.limit_rules import RuleToWrite, close, declare, remove, write_key, write_rules
from storage.limits.gates import Gate
from support.engine import SCHEMA, Engine

STRIPE = LimitSpec(per_key=5, total=100)


def stored(engine: Engine, columns: str, name: str = "stripe") -> tuple[Any, ...]:
    question = f"select {columns} from holdfast.limit_rule where name = %s"
    [row] = engine.connection.execute(question.encode(), [name]).fetchall()
    return tuple(row)


def declared(engine: Engine, **limits: LimitSpec) -> list[str]:
    return engine.hold(declare(SCHEMA, limits, now=engine.now))


def overridden(engine: Engine, spec: LimitSpec, **overrides: object) -> None:
    engine.run(write_rules(SCHEMA, [RuleToWrite("stripe", spec, overrides)], now=engine.now))


def test_every_part_of_a_limit_is_stored(engine: Engine) -> None:
    spec = LimitSpec(
        total=7,
        rate=Rate(90, per="10s", burst=10),
        rate_per_key=Rate(5, per="1m", strict=True),
        turns=True,
        breaker=Breaker(failures=3, pause="30s", per_key=True),
        hold="job",
    )
    assert declared(engine, stripe=spec) == ["stripe"]
    row = stored(
        engine, "total, per_key, rate, rate_per, burst, is_strict, key_rate, key_rate_per, key_is_strict"
    )
    assert row == (7, None, 90, timedelta(seconds=10), 10, False, 5, timedelta(minutes=1), True)
    assert stored(engine, "is_fair, hold, may_be_direct, is_direct, breaker") == (
        True,
        "job",
        False,
        False,
        {"failures": 3, "pause": 30.0, "per_key": True},
    )
    assert stored(engine, "declared") == (to_json(spec),)


def test_a_limit_that_is_as_it_was_is_not_written_again(engine: Engine) -> None:
    assert declared(engine, stripe=STRIPE) == ["stripe"]
    before = stored(engine, "xmin, changed_at")
    engine.pass_time(timedelta(seconds=5))
    assert declared(engine, stripe=STRIPE) == []
    assert stored(engine, "xmin, changed_at") == before


def test_a_deploy_does_not_revert_what_an_operator_has_set(engine: Engine) -> None:
    declared(engine, stripe=STRIPE)
    overridden(engine, STRIPE, total=20)
    assert stored(engine, "total, per_key") == (20, 5)
    assert declared(engine, stripe=LimitSpec(per_key=7, total=90)) == ["stripe"]
    assert stored(engine, "total, per_key") == (20, 7)
    overridden(engine, LimitSpec(per_key=7, total=90))
    assert stored(engine, "total, per_key, overrides") == (90, 7, None)


def test_a_deploy_neither_brings_back_what_was_taken_away_nor_opens_what_is_closed(engine: Engine) -> None:
    declared(engine, stripe=STRIPE)
    overridden(engine, STRIPE, total=None)
    engine.run(close(SCHEMA, "stripe", now=engine.now))
    assert declared(engine, stripe=LimitSpec(per_key=7, total=90)) == ["stripe"]
    assert stored(engine, "total, per_key, may_be_direct, closed_at is not null") == (None, 7, True, True)


def test_a_change_has_the_leader_look_at_every_key_that_waits(engine: Engine) -> None:
    engine.worker()
    gate = Gate(engine)
    declared(engine, stripe=LimitSpec(per_key=1))
    gate.arrive(["a", "a", "a", "b", "b"])
    assert gate.settle_down() == 2
    assert stored(engine, "is_direct") == (True,)
    engine.pass_time(timedelta(seconds=1))
    declared(engine, stripe=LimitSpec(per_key=3))
    assert stored(engine, "is_direct") == (False,)
    assert gate.settle_down() == 3
    assert gate.held() == {"a": 3, "b": 2}


def test_a_key_can_be_allowed_more_or_less_than_others(engine: Engine) -> None:
    engine.worker()
    gate = Gate(engine)
    declared(engine, stripe=LimitSpec(per_key=1))
    assert engine.run(write_key(SCHEMA, "stripe", "acme", per_key=3, weight=2, now=engine.now)) == ["stripe"]
    gate.arrive(["acme"] * 5 + ["other"] * 5)
    assert gate.settle_down() == 4
    assert gate.held() == {"acme": 3, "other": 1}
    engine.pass_time(timedelta(seconds=1))
    engine.run(write_key(SCHEMA, "stripe", "acme", forget=True, now=engine.now))
    assert engine.connection.execute("select count(*) from holdfast.limit_key").fetchall() == [(0,)]
    assert engine.run(write_key(SCHEMA, "nothing", "acme", weight=1)) == []


@pytest.mark.parametrize("key", [None, "a"])
def test_what_is_closed_lets_nothing_pass_until_it_is_opened(engine: Engine, key: str | None) -> None:
    engine.worker()
    gate = Gate(engine)
    declared(engine, stripe=LimitSpec(per_key=2))
    [closed] = engine.run(close(SCHEMA, "stripe", key=key, reason="billing is down", now=engine.now))
    assert closed == ("stripe", None, False)
    gate.arrive(["a", "a", "a"])
    assert gate.settle_down() == 0
    engine.pass_time(timedelta(seconds=1))
    [opened] = engine.run(close(SCHEMA, "stripe", key=key, opens=True, now=engine.now))
    assert opened.was_closed
    assert gate.settle_down() == 2


def test_opening_closes_a_breaker(engine: Engine) -> None:
    engine.worker()
    gate = Gate(engine)
    declared(engine, stripe=LimitSpec(per_key=2, breaker=Breaker(failures=1, pause="1h", per_key=True)))
    gate.arrive(["a"] * 4)
    gate.settle_down()
    for row in engine.claim(1):
        assert row.job is not None
        gate.end(row.job, "a", failures=1)
    assert gate.settle_down() == 0
    engine.pass_time(timedelta(seconds=1))
    engine.run(close(SCHEMA, "stripe", key="a", opens=True, now=engine.now))
    assert gate.settle_down() == 2


def test_opening_opens_a_key_that_a_handler_has_closed(engine: Engine) -> None:
    engine.worker()
    gate = Gate(engine)
    declared(engine, stripe=LimitSpec(per_key=2, total=10))
    gate.arrive(["a"] * 4)
    gate.settle_down()
    [first, second] = engine.claim(1)
    assert first.job is not None
    assert second.job is not None
    gate.end(first.job, "a", closed_for=timedelta(hours=1))
    gate.end(second.job, "a")
    assert gate.settle_down() == 0
    engine.run(close(SCHEMA, "stripe", key="a", opens=True, now=engine.now))
    assert gate.settle_down() == 2


def test_a_removed_limit_frees_all_that_wait_and_can_be_declared_again(engine: Engine) -> None:
    engine.worker()
    gate = Gate(engine)
    declared(engine, stripe=LimitSpec(total=2))
    gate.arrive([""] * 10)
    assert gate.settle_down() == 2
    engine.pass_time(timedelta(seconds=1))
    assert engine.run(remove(SCHEMA, "stripe", now=engine.now)) == ["stripe"]
    assert gate.settle_down() == 8
    assert engine.run(remove(SCHEMA, "stripe", now=engine.now)) == []
    assert gate.total() == 10
    engine.pass_time(timedelta(seconds=1))
    assert declared(engine, stripe=LimitSpec(total=2)) == ["stripe"]
    gate.arrive([""])
    assert gate.settle_down() == 0, "ten of two are held"
