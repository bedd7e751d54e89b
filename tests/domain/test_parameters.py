"""Arguments against the stored schema of a kind, as the codec writes it."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Literal

import pytest

from holdfast.codec.signature import Signature
from holdfast.domain.parameters import Complaint, complaint_about, names_of, required_of, type_of
from holdfast.worker.context import Context


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Item:
    sku: str
    count: int = 1
    parts: "list[Item] | None" = None


def order(  # noqa: PLR0917  # one of each type
    number: int,
    note: str,
    items: list[Item] | None = None,
    price: float = 1.0,
    at: datetime | None = None,
    size: Size = Size.SMALL,
    way: Literal["post", 1] = "post",
    is_gift: bool = False,
    extra: dict[str, int] | None = None,
    anything: Any = None,
) -> None: ...


SCHEMA = Signature.of(order, context=Context).json_schema()
GIVEN: dict[str, Any] = {"number": 1, "note": "n"}
TAKES = "it takes number, note, anything, at, extra, is_gift, items, price, size, way"


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"items": None},
        {"items": [{"sku": "a"}, {"sku": "b", "count": 2, "parts": [{"sku": "c"}]}]},
        {"price": 2},
        {"price": 2.5, "at": "2026-01-01T00:00:00Z", "size": "l", "way": 1, "is_gift": True},
        {"extra": {"a": 1}},
        {"anything": [1, "x", {"y": None}]},
    ],
)
def test_arguments_that_fit_are_taken(more: dict[str, Any]) -> None:
    assert complaint_about(SCHEMA, GIVEN | more) is None


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({}, Complaint(None, f'"number", "note" must be given; {TAKES}')),
        ({"number": 1}, Complaint(None, f'"note" must be given; {TAKES}')),
        (
            GIVEN | {"nunber": 2},
            Complaint(None, f'it has no parameter "nunber" (did you mean "number"?); {TAKES}'),
        ),
        (GIVEN | {"zzz": 2}, Complaint(None, f'it has no parameter "zzz"; {TAKES}')),
        (GIVEN | {"number": "1"}, Complaint("number", "it must be a whole number, not text")),
        (GIVEN | {"number": True}, Complaint("number", "it must be a whole number, not true or false")),
        (GIVEN | {"number": 1.5}, Complaint("number", "it must be a whole number, not a number")),
        (GIVEN | {"note": None}, Complaint("note", "it must be text, not null")),
        (GIVEN | {"price": "2"}, Complaint("price", "it must be a number, not text")),
        (GIVEN | {"is_gift": 1}, Complaint("is_gift", "it must be true or false, not a whole number")),
        (GIVEN | {"size": "m"}, Complaint("size", 'it must be one of "l", "s"')),
        (GIVEN | {"way": True}, Complaint("way", 'it must be one of 1, "post"')),
        (GIVEN | {"at": 5}, Complaint("at", "it must be text or null, not a whole number")),
        (
            GIVEN | {"items": [{"count": 2}]},
            Complaint("items[0]", 'it has no "sku"'),
        ),
        (
            GIVEN | {"extra": {"a": "1"}},
            Complaint("extra.a", "it must be a whole number, not text"),
        ),
    ],
)
def test_the_first_argument_that_does_not_fit_is_named(args: dict[str, Any], complaint: Complaint) -> None:
    assert complaint_about(SCHEMA, args) == complaint


def test_required_parameters_come_first() -> None:
    assert names_of(SCHEMA)[:2] == ("number", "note")
    assert required_of(SCHEMA) == {"number", "note"}
    assert type_of(SCHEMA, "items") == "a list of an object (Item) or null"
    assert type_of(SCHEMA, "anything") == "anything"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$ref": "#/$defs/nothing"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        {"type": "object", "additionalProperties": True},
    ],
)
def test_a_schema_that_leads_nowhere_has_no_parameters_and_never_ends_in_an_error(
    schema: dict[str, Any],
) -> None:
    assert names_of(schema) == ()
    found = complaint_about(schema, {"a": 1})
    assert (found is None) == (schema.get("additionalProperties") is True)


def test_a_schema_whose_types_are_open_asks_only_for_names() -> None:
    """As the codec writes it of types that have no schema."""
    schema = {"type": "object", "properties": {"a": {}, "b": {"type": "weird"}}}
    assert complaint_about(schema, {"a": 1, "b": [1]}) is None
    assert complaint_about(schema, {"c": 1}) == Complaint(None, 'it has no parameter "c"; it takes a, b')
