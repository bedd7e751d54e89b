"""Failures, arguments and names are made fit for Postgres, or refused."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.domain.failure import MESSAGE_LIMIT, TRACEBACK_LIMIT, Failure
from holdfast.domain.job import args_json, check_name
from holdfast.errors import InvalidInput

# Everything a handler may raise: surrogates and NUL included.
texts = st.text(st.characters(), max_size=50)


@pytest.mark.requirement("S0.23")
@given(st.builds(Failure, texts, type=texts, traceback=texts, causes=st.lists(texts).map(tuple)))
def test_any_failure_becomes_text_that_postgres_takes(failure: Failure) -> None:
    text = failure.to_json()
    text.encode()
    stored = json.loads(text)
    assert "\0" not in json.dumps(stored, ensure_ascii=False)
    assert "\\u0000" not in text.replace("\\\\", "")


@pytest.mark.requirement("S0.23")
@given(st.integers(0, 3), st.sampled_from(["a", "é", "水", "🐙"]))
def test_a_message_is_cut_at_a_character(more: int, character: str) -> None:
    stored = json.loads(Failure(character * (MESSAGE_LIMIT + more)).to_json())
    assert stored["message"] == character * MESSAGE_LIMIT


def test_of_a_traceback_the_end_is_kept() -> None:
    traceback = "begin" + "🐙" * TRACEBACK_LIMIT + "the error"
    stored = json.loads(Failure("", traceback=traceback).to_json())
    assert len(stored["traceback"]) == TRACEBACK_LIMIT
    assert stored["traceback"].endswith("the error")


@pytest.mark.requirement("S0.22")
def test_a_failure_without_a_code_is_the_handlers() -> None:
    assert json.loads(Failure("boom").to_json())["code"] == "handler_error"


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(st.characters()), _json, max_size=4))
@example({"n": math.nan})
@example({"\0": 1})
@example({"path": "C:\\u0000"})
def test_arguments_are_stored_as_they_are_or_refused(args: dict[str, object]) -> None:
    try:
        text = args_json(args)
    except InvalidInput:
        assert not is_storable(args)
    else:
        assert is_storable(args)
        assert json.loads(text) == args


@given(st.lists(_json) | st.text() | st.integers() | st.none())
def test_arguments_are_an_object(args: object) -> None:
    with pytest.raises(InvalidInput, match="must be a JSON object"):
        args_json(args)


@given(st.integers(0, 200))
def test_arguments_have_a_limit_in_bytes(size: int) -> None:
    args = {"é": "é" * size}
    is_small = len('{"é":""}'.encode()) + 2 * size <= 200
    if is_small:
        args_json(args, limit=200)
    else:
        with pytest.raises(InvalidInput, match="store them elsewhere and pass a reference"):
            args_json(args, limit=200)


@given(st.text(st.characters(), max_size=250))
def test_a_name_that_is_taken_can_be_printed_and_stored(name: str) -> None:
    try:
        check_name("queue", name)
    except InvalidInput:
        assert not 1 <= len(name) <= 200 or not name.isprintable()
    else:
        assert 1 <= len(name) <= 200
        assert "\0" not in name
        name.encode()


def is_storable(value: object) -> bool:
    match value:
        case float():
            return math.isfinite(value)
        case str():
            return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)
        case list():
            return all(map(is_storable, value))
        case dict():
            return all(map(is_storable, value)) and all(map(is_storable, value.values()))
        case _:
            return True
