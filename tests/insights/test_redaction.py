"""What is masked of a job's arguments, and what stays readable."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.redaction import (
    EVERYTHING,
    MASK,
    SECRET_NAMES,
    Redaction,
    literal,
    named,
    path_of,
    scrubbed,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.parametrize(
    ("path", "value", "masked"),
    [
        ("/token", {"token": "abc", "id": 1}, {"token": MASK, "id": 1}),
        ("/card/number", {"card": {"number": "4", "name": "A"}}, {"card": {"number": MASK, "name": "A"}}),
        ("/cards/*/number", {"cards": [{"number": "4"}, {}]}, {"cards": [{"number": MASK}, {}]}),
        ("/pair/0", {"pair": ["a", "b"]}, {"pair": [MASK, "b"]}),
        (
            "/tree/**/pin",
            {"tree": {"pin": 1, "sub": [{"pin": 2}]}},
            {"tree": {"pin": MASK, "sub": [{"pin": MASK}]}},
        ),
        ("/**/=*PassWord*", {"a": {"db_password": "x"}, "b": 1}, {"a": {"db_password": MASK}, "b": 1}),
        ("/card", {"card": {"number": "4"}}, {"card": MASK}),
        ("/token", {"token": None}, {"token": None}),
    ],
)
def test_secret_places_are_masked_and_others_stay(path: str, value: Any, masked: Any) -> None:
    assert Redaction.of([path]).masked(value) == masked


def test_common_names_of_secrets_are_masked_without_a_word_and_counts_of_tokens_are_not() -> None:
    secret = ("db_pwd", "PWD", "Authorization", "bearer", "cookie", "Cookies", "access_tokens", "tokens")
    plain = ("max_tokens", "prompt_tokens", "author", "authorization_id")
    masked = Redaction.of(named(SECRET_NAMES)).masked({"headers": dict.fromkeys((*secret, *plain), 4096)})
    assert masked == {"headers": {**dict.fromkeys(secret, MASK), **dict.fromkeys(plain, 4096)}}


def test_a_kind_of_which_nothing_is_known_shows_nothing() -> None:
    assert EVERYTHING.masked({"id": 1}) == MASK


@given(st.text(), json_values)
def test_any_key_can_be_secret(key: str, value: Any) -> None:
    redaction = Redaction.of([path_of(literal(key))])
    masked = redaction.masked({key: value, f"{key}.": 1})
    assert masked == {key: None if value is None else MASK, f"{key}.": 1}


@given(json_values)
def test_what_was_masked_and_not_edited_is_restored(value: Any) -> None:
    redaction = Redaction.of(["/a/*", "/**/b"])
    stored = {"a": value, "b": value, "c": [value, {"b": value}]}
    assert redaction.restored(redaction.masked(stored), stored) == stored


def test_an_edited_secret_replaces_the_stored_one() -> None:
    redaction = Redaction.of(["/token"])
    assert redaction.restored({"token": "new", "id": 2}, {"token": "old", "id": 1}) == {
        "token": "new",
        "id": 2,
    }


def test_texts_that_quote_a_secret_are_scrubbed() -> None:
    redaction = Redaction.of(["/card", "/pin"])
    secrets = redaction.secrets_in({"card": {"number": "4111-1111", "holder": "4111-1111-2"}, "pin": 12})
    assert secrets == ("4111-1111-2", "4111-1111")
    assert (
        scrubbed("refused 4111-1111-2, then 4111-1111 (12)", secrets) == f"refused {MASK}, then {MASK} (12)"
    )


@pytest.mark.parametrize(
    ("path", "is_covered"),
    [
        (("card", "number"), True),
        (("card",), True),
        (("card", "name"), False),
        (("card", "number", "x"), True),
    ],
)
def test_a_place_is_covered_if_a_secret_lies_at_it_above_it_or_below_it(
    path: tuple[str, ...], is_covered: bool
) -> None:
    assert Redaction.of(["/card/number"]).covers(path) is is_covered


@pytest.mark.parametrize("quote", [repr, ascii, json.dumps, str])
@pytest.mark.parametrize(
    "secret", ["-----BEGIN KEY-----\nS3CRET\n-----END KEY-----", 'it\'s "S3CRET" \\ here', "grün S3CRET"]
)
def test_a_secret_is_found_however_a_message_quotes_it(secret: str, quote: Callable[[str], str]) -> None:
    secrets = Redaction.of(["/key"]).secrets_in({"key": secret})
    message = f"refused {quote(secret)}, and {quote({'key': secret}) if quote is not str else secret}"  # type: ignore[arg-type]
    assert "S3CRET" not in scrubbed(message, secrets)
