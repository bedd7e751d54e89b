"""Where pydantic is installed, its models are arguments like any other."""

import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel, SecretStr, model_serializer

from codec.support import Stored, arrived, giving, taking
from holdfast.domain.outcome import Succeeded
from holdfast.errors import InvalidArguments, Undecodable, UnstorableType

T = TypeVar("T")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Item(BaseModel):
    name: str
    price: Decimal
    tags: set[str] = set()


class Order(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    id: UUID
    at: datetime
    items: tuple[Item, ...]
    note: Annotated[str | None, Field(alias="customerNote")] = None


class Page(BaseModel, Generic[T]):
    content: T


class Names(RootModel[list[str]]):
    pass


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


class Login(BaseModel):
    name: str
    password: SecretStr


class Hidden(BaseModel):
    name: str
    secret: str = Field(exclude=True, default="")


class Cached(BaseModel):
    name: str
    _cache: dict[str, int] = PrivateAttr(default_factory=dict)


class Unwilling(BaseModel):
    @model_serializer
    def fail(self) -> dict[str, Any]:
        raise RuntimeError("not today")


@dataclass
class Basket:
    orders: list[Order]
    first: Item | None = None


ITEM = Item(name="nut", price=Decimal("1.10"), tags={"a"})
ORDER = Order.model_validate({"id": UUID(int=7), "at": NOON, "items": (ITEM,), "customerNote": "hi"})


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Item, ITEM),
        (Order, ORDER),
        (Item | None, None),
        (dict[str, Order], {"a": ORDER}),
        (Page[int], Page[int](content=3)),
        (Page[list[Order]], Page[list[Order]](content=[ORDER])),
        (Names, Names(["a", "b"])),
        (Open, Open.model_validate({"anything": [1]})),
        (Cached, Cached(name="a")),
        (Basket, Basket([ORDER], ITEM)),
    ],
)
def test_a_model_arrives_as_it_was_given(hint: Any, value: object, stored: Stored) -> None:
    taken = arrived(hint, value, stored)
    assert taken == value
    assert type(taken) is type(value)


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (Item, {"name": "nut", "price": "1"}, "job(value=…): expected Item, got dict"),
        (Item, ORDER, "job(value=…): name: Field required; price: Field required"),
        (
            Item,
            Item.model_construct(name=3, price=Decimal(1)),
            "cannot be written as JSON: Pydantic serializer warnings",
        ),
        (
            Login,
            Login(name="kari", password=SecretStr("x")),
            "job(value.password=…): expected SecretStr, got",
        ),
        (Hidden, Hidden(name="a", secret="b"), "job(value.secret=…): expected str, got str 'b'"),
        (Unwilling, Unwilling(), "not today"),
        (Any, ITEM, "expected dict, got Item("),
    ],
)
def test_a_model_that_would_change_is_refused(hint: Any, value: object, message: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        taking(hint).encode((), {"value": value})
    assert message in str(refused.value)


def test_stored_text_that_a_model_refuses_is_undecodable() -> None:
    with pytest.raises(Undecodable, match="value: price: Input should be a valid decimal"):
        taking(Item).decode('{"value":{"name":"nut","price":"cheap"}}')


def test_a_model_among_other_types_cannot_be_told_apart() -> None:
    with pytest.raises(UnstorableType, match="Take one type, or msgspec Structs with tag=True"):
        taking(Item | Order).resolve()


def test_a_model_can_be_a_result() -> None:
    signature = giving(Order)
    assert signature.decode_result(signature.encode_result(ORDER).result) == ORDER
    assert giving(Unwilling).encode_result(Unwilling()) == Succeeded(None, "result_unencodable")


def test_pydantic_is_not_imported_by_the_codec() -> None:
    program = """
import sys
from dataclasses import dataclass
from holdfast.codec.signature import Signature
@dataclass
class Line: name: str
def job(line: Line) -> Line: ...
signature = Signature.of(job, context=object)
assert signature.decode(signature.encode((Line("a"),), {})) == {"line": Line("a")}
sys.exit("pydantic" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
