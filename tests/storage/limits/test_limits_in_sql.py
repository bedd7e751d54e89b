"""`holdfast.enqueue` puts limited jobs at the gate, with the keys that Python computes."""

import json
import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.domain.job import KEY_LIMIT, Policy
from holdfast.domain.limit_keys import KindLimit, uses_of
from holdfast.domain.limit_use import LimitUse
from holdfast.domain.redaction import NOTHING
from holdfast.errors import InvalidInput
from holdfast.storage.kinds import DeclaredKind, put_kinds
from support.engine import SCHEMA, Engine

ACCOUNT = KindLimit("stripe", ("account",))


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with Engine.on(dsn, now=None) as engine:
        yield engine


def declare(engine: Engine, *limits: KindLimit, kind: str = "charge") -> None:
    declared = DeclaredKind(Policy(kind), "coroutine", {}, NOTHING, limits)
    engine.run(put_kinds(SCHEMA, [declared], version="0"))


def by_sql(engine: Engine, args: str, kind: str = "charge") -> tuple[LimitUse, ...] | None:
    """None: refused."""
    try:
        with engine.connection.transaction():
            [(limits, keys)] = engine.connection.execute(
                "select * from holdfast.limits_of(%s, %s::jsonb)", [kind, args]
            )
    except psycopg.errors.InvalidParameterValue:
        return None
    return tuple(map(LimitUse, limits or [], keys or []))


def by_python(limits: tuple[KindLimit, ...], args: str) -> tuple[LimitUse, ...] | None:
    try:
        return uses_of(limits, args, "charge")
    except InvalidInput:
        return None


def enqueued(engine: Engine, arguments: str) -> int:
    [(job,)] = engine.connection.execute(f"select holdfast.enqueue({arguments})".encode())
    return int(job)


def rows(engine: Engine, text: str) -> list[Any]:
    return engine.connection.execute(text.encode()).fetchall()


def test_a_limited_job_from_sql_waits_at_the_gate(dsn: str, engine: Engine) -> None:
    declare(engine, ACCOUNT)
    with psycopg.connect(dsn, autocommit=True) as listener:
        listener.execute('listen "holdfast.gate"; listen "holdfast.ready"')
        job = enqueued(engine, """'charge', '{"account": "acme"}', priority => 3""")
        [told] = listener.notifies(timeout=10, stop_after=1)
        assert told.channel == "holdfast.gate"
    assert rows(engine, "select id, limits, limit_keys, limit_costs from holdfast.job") == [
        (job, ["stripe"], ["acme"], None)
    ]
    gate = "select segment, job, limit_name, limit_key, next_limit, next_key from holdfast.ready"
    assert rows(engine, gate) == [(8, job, "stripe", "acme", None, None)]
    knocks = "select limit_name, key, given, priority, job from holdfast.knock"
    assert rows(engine, knocks) == [("stripe", "acme", 0, 3, job)]


def test_two_limits_are_passed_one_after_the_other(engine: Engine) -> None:
    declare(engine, ACCOUNT, KindLimit("cpu"))
    enqueued(engine, """'charge', '{"account": "acme"}'""")
    gate = "select limit_name, limit_key, next_limit, next_key from holdfast.ready"
    assert rows(engine, gate) == [("cpu", "", "stripe", "acme")]
    assert rows(engine, "select limits, limit_keys from holdfast.job") == [(["cpu", "stripe"], ["", "acme"])]
    assert rows(engine, "select limit_name, key from holdfast.knock") == [("cpu", "")]


def test_a_delayed_job_carries_its_limits(engine: Engine) -> None:
    declare(engine, ACCOUNT)
    enqueued(engine, """'charge', '{"account": "acme"}', delay => '1 day'""")
    assert rows(engine, "select limits, limit_keys from holdfast.job") == [(["stripe"], ["acme"])]
    assert rows(engine, "select count(*) from holdfast.scheduled") == [(1,)]
    assert rows(
        engine, "select (select count(*) from holdfast.ready), (select count(*) from holdfast.knock)"
    ) == [(0, 0)]


def test_a_job_without_limits_goes_where_it_went(engine: Engine) -> None:
    declare(engine)
    for kind in ("charge", "unheard"):
        enqueued(engine, f"'{kind}'")
    assert rows(engine, "select distinct segment, limit_name from holdfast.ready") == [(0, None)]
    assert rows(engine, "select count(limits) from holdfast.job") == [(0,)]


def test_a_missing_key_is_told_before_anything_is_written(engine: Engine) -> None:
    declare(engine, ACCOUNT)
    message = (
        'charge counts against limit "stripe" by its account, which is missing or empty: give it in args'
    )
    for args in ("{}", '{"account": null}', '{"account": ""}'):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=re.escape(message)):
            enqueued(engine, f"'charge', '{args}'")
    assert rows(engine, "select last_value, is_called from holdfast.job_id_seq") == [(1, False)]


def test_a_role_that_may_only_enqueue_need_not_read_kinds(engine: Engine) -> None:
    declare(engine, ACCOUNT)
    engine.connection.execute(
        "create role only_enqueues;"
        "grant usage on schema holdfast to only_enqueues;"
        "grant usage on all sequences in schema holdfast to only_enqueues;"
        "grant insert on holdfast.job, holdfast.ready, holdfast.scheduled to only_enqueues;"
        "grant select on holdfast.ring to only_enqueues"
    )
    try:
        engine.connection.execute("set role only_enqueues")
        enqueued(engine, "'plain'")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="knock"):
            enqueued(engine, """'charge', '{"account": "acme"}'""")
        engine.connection.execute("reset role")
        engine.connection.execute("grant insert on holdfast.knock to only_enqueues")
        engine.connection.execute("set role only_enqueues")
        enqueued(engine, """'charge', '{"account": "acme"}'""")
    finally:
        engine.connection.execute("reset role")
        engine.connection.execute("drop owned by only_enqueues; drop role only_enqueues")


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
NUMBERS = st.integers(-(10**25), 10**25) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
LONG = st.integers(KEY_LIMIT - 3, KEY_LIMIT + 3).map(lambda size: "é" * (size // 2) + "e" * (size % 2))
KINDS = [
    (ACCOUNT,),
    (KindLimit("stripe", ("account", "region")),),
    (KindLimit("stripe", ("account",), is_secret=True), KindLimit("cpu")),
    (KindLimit("stripe", ("account", "region"), {"region": "eu"}), KindLimit("stripe2", ("region",))),
    (KindLimit("stripe", ("account",), within="fields"),),
]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(KINDS),
    st.fixed_dictionaries({}, optional={"account": VALUES | LONG, "region": VALUES, "fields": VALUES}),
)
def test_python_and_sql_compute_the_same_keys(
    engine: Engine, limits: tuple[KindLimit, ...], args: dict[str, Any]
) -> None:
    declare(engine, *limits)
    text = json.dumps(args, ensure_ascii=False)
    assert by_sql(engine, text) == by_python(limits, text)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["1.0", "1.50", "-0.0", "-0", "1e3", "1E+3", "1.5e-7", "100e-2", "0.10", "12e0", "1e40"])
    | st.decimals(-(10**20), 10**20, places=3).map(str)
)
def test_python_and_sql_read_numbers_as_they_are_written(engine: Engine, number: str) -> None:
    declare(engine, ACCOUNT)
    for text in (f'{{"account": {number}}}', f'{{"account": [{number}, {{"b": {number}}}]}}'):
        assert by_sql(engine, text) == by_python((ACCOUNT,), text)


def test_both_functions_hash_what_the_other_refuses(engine: Engine) -> None:
    [(limits_of,)] = rows(engine, "select prosrc from pg_proc where proname = 'limits_of'")
    [(enqueue,)] = rows(engine, "select prosrc from pg_proc where proname = 'enqueue'")
    assert limits_of.split("key ~ '")[1].split("'")[0] == enqueue.split("name ~ '")[1].split("'")[0]
