"""`Secret[…]`: where secrets lie in a signature, and that no error repeats them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, NamedTuple, NotRequired, TypedDict, TypeVar

import msgspec
import pydantic
import pytest

from holdfast import Context, Secret
from holdfast.codec.signature import Signature
from holdfast.domain.redaction import MASK
from holdfast.errors import InvalidArguments, Undecodable

T = TypeVar("T")


@dataclass
class Card:
    number: Secret[str]
    name: str = ""


@dataclass
class Tree:
    pin: Secret[str]
    children: list[Tree] = field(default_factory=list)


@dataclass
class Box(Generic[T]):
    content: T


class Login(TypedDict):
    user: str
    password: Secret[str]
    card: NotRequired[Card]


class Pair(NamedTuple):
    user: str
    pin: Secret[int]


class Renamed(msgspec.Struct, rename="camel"):
    api_key: Secret[str]


class Model(pydantic.BaseModel):
    token: Secret[str] = pydantic.Field(alias="TOKEN")
    card: Card


def pay(ctx: Context, token: Secret[str], card: Card, amount: int) -> Secret[str]:
    return token


def many(  # noqa: PLR0917  # a parameter for each place
    cards: list[Card],
    by_name: dict[str, Card] | None,
    two: tuple[Secret[str], int],
    tree: Tree,
    login: Login,
    pair: Pair,
    renamed: Renamed,
    model: Model,
    box: Box[Secret[str]],
    bounded: Annotated[Secret[int], msgspec.Meta(ge=0)],
    plain: Any,
) -> None: ...


def signature_of(function: Any) -> Signature:
    signature = Signature.of(function, context=Context)
    signature.resolve()
    return signature


def test_secrets_are_found_wherever_a_type_holds_them() -> None:
    assert signature_of(pay).redaction.written() == ("/token", "/card/number", "/return")
    assert set(signature_of(many).redaction.written()) == {
        "/cards/*/number",
        "/by_name/*/number",
        "/two/0",
        "/tree/pin",
        "/tree/**/pin",
        "/login/password",
        "/login/card/number",
        "/pair/1",
        "/renamed/apiKey",
        "/model/TOKEN",
        "/model/card/number",
        "/box",
        "/bounded",
    }


def test_the_handler_gets_the_value_as_it_was_given() -> None:
    signature = signature_of(pay)
    text = signature.encode(("s3cret-token", Card("4111-1111")), {"amount": 1})
    assert signature.decode(text) == {"token": "s3cret-token", "card": Card("4111-1111"), "amount": 1}
    assert signature.secrets_in(text) == ("s3cret-token", "4111-1111")


class Vault:
    """JSON has no form for it."""


def test_secrets_taken_are_those_given_and_the_defaults_of_the_others() -> None:
    def pay(
        order: int = 1234567,
        token: Secret[str] = "s3cret-token",
        card: Card = Card("4111-1111"),  # noqa: B008  # frozen, and read only
        vault: Secret[Any] = Vault(),  # noqa: B008
    ) -> None: ...

    signature = signature_of(pay)
    assert signature.secrets_taken("{}") == ("s3cret-token", "4111-1111")
    assert signature.secrets_taken('{"token":"s3cret-given"}') == ("s3cret-given", "4111-1111")
    assert signature.secrets_taken("no JSON") == signature.secrets_in("{}") == ()


@pytest.mark.parametrize(
    "args",
    [
        (b"s3cret-token", Card("4"), 1),
        ("t", Card(["s3cret-token"]), 1),  # type: ignore[arg-type]
        ("t", {"number": "s3cret-token", "nam": 1}, 1),
        ("t", object(), 1),
        ("s3cret-token\0", Card("4"), 1),
        ("s3cret-token" * 1_000_000, Card("4"), 1),
    ],
)
def test_no_error_of_a_wrong_argument_repeats_a_secret(args: Any) -> None:
    with pytest.raises(InvalidArguments) as caught:
        signature_of(pay).encode(args, {})
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in str(caught.value.problem)


def test_an_error_of_another_argument_still_shows_its_value() -> None:
    with pytest.raises(InvalidArguments, match="'many'"):
        signature_of(pay).encode(("t", Card("4"), "many"), {})


@pytest.mark.parametrize("text", ['{"token":"s3cret-token","card":{"number":"s3cret"}}', '{"token":"s3cret'])
def test_what_does_not_fit_is_shown_without_its_secrets(text: str) -> None:
    with pytest.raises(Undecodable) as caught:
        signature_of(pay).decode(text)
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in caught.value.text
    assert MASK in str(caught.value)


def test_a_secret_parameter_keeps_the_schema_of_its_type() -> None:
    schema = signature_of(pay).json_schema()
    [record] = [each for each in schema["$defs"].values() if "amount" in each["properties"]]
    assert record["properties"]["token"] == {"type": "string"}
