"""The same statement has the same rows through every driver: equal values of equal types."""

from datetime import timedelta, timezone

from hypothesis import given, settings
from hypothesis import strategies as st

from borrowed.caller_connections import Caller
from borrowed.example_values import EXAMPLES, NOON, typed
from borrowed.notes_table import ask


def test_every_type_comes_back_as_it_was_sent(caller: Caller) -> None:
    for cast, value in EXAMPLES:
        [(answer,)] = caller.run(ask(f"select %(value)s::{cast}", value=value))
        assert (cast, typed(answer)) == (cast, typed(value))


def test_nothing_is_null_for_every_type(caller: Caller) -> None:
    for cast in dict(EXAMPLES):
        assert caller.run(ask(f"select %(value)s::{cast}", value=None)) == [(None,)], cast


def test_a_moment_is_the_same_in_whichever_zone_it_is_sent(caller: Caller) -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=45)))
    [(answer,)] = caller.run(ask("select %(at)s::timestamptz", at=elsewhere))
    assert typed(answer) == typed(NOON)


def test_json_is_sent_as_text_and_read_as_text(caller: Caller) -> None:
    document = '{"a": [1, "100%", null, "it\'s \\"so\\""], "b": {"c": true}}'
    assert caller.run(ask("select %(args)s::jsonb::text", args=document)) == [(document,)]
    assert caller.run(ask("select %(args)s::jsonb ->> 'a'", args='{"a": "b"}')) == [("b",)]
    assert caller.run(ask("select x::text from unnest(%(args)s::jsonb[]) x", args=[document, "1", None])) == [
        (document,),
        ("1",),
        (None,),
    ]


def test_a_parameter_may_be_used_twice_and_a_percent_sign_is_doubled(caller: Caller) -> None:
    question = "select '100%%', %(a)s::text || %(b)s::text || %(a)s::text, 7 %% %(n)s::int"
    assert caller.run(ask(question, b="b", a="a", n=4)) == [("100%", "aba", 3)]
    assert caller.run(ask("select '100%%'")) == [("100%",)]


def test_a_batch_is_one_statement(caller: Caller) -> None:
    question = "select * from unnest(%(ids)s::bigint[], %(names)s::text[], %(at)s::timestamptz[])"
    assert caller.run(ask(question, ids=[1, -2], names=["a", None], at=[NOON, None])) == [
        (1, "a", NOON),
        (-2, None, None),
    ]


def test_any_text_and_number_comes_back_as_it_was_sent(caller: Caller) -> None:
    texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
    numbers = st.integers(-(2**63), 2**63 - 1)

    @settings(max_examples=25, deadline=None, database=None)
    @given(
        texts | st.text("'\"\\%{}$()s:,;-/* "),
        st.lists(texts),
        numbers,
        st.binary(),
        st.floats(allow_nan=False),
    )
    def comes_back(text: str, many: list[str], number: int, data: bytes, real: float) -> None:
        question = (
            "select %(text)s::text, %(many)s::text[], %(number)s::bigint, %(data)s::bytea, %(real)s::float8"
        )
        asked = ask(question, text=text, many=many, number=number, data=data, real=real)
        assert caller.run(asked) == [(text, many, number, data, real)]

    comes_back()
