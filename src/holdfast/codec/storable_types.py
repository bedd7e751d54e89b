"""Whether values of a type can be stored as JSON and read back: decided before the first of them is met."""

from collections import abc
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from holdfast.codec.json_hooks import from_json_types, is_model

_WITHOUT_KEYS = (
    inspect.BoolType,
    inspect.NoneType,
    inspect.CollectionType,
    inspect.TupleType,
    inspect.DictType,
    inspect.TypedDictType,
    inspect.NamedTupleType,
    inspect.DataclassType,
    inspect.StructType,
    inspect.CustomType,
)


def problem_with(hint: Any) -> str | None:
    """Why values of this type cannot be stored, and what to do about it; None when they can."""
    try:
        for node in nodes(hint):
            if problem := _problem_of(node):
                return problem
        msgspec.json.Decoder(hint, dec_hook=from_json_types)
    except Exception as error:  # noqa: BLE001  # reading the user's classes runs the user's code
        return _advised(f"{named(hint)} cannot be stored: {str(error) or type(error).__name__}")
    return None


def takes_naive(hint: Any) -> bool:
    """Whether it says of a datetime in it that it has no time zone."""
    return any(isinstance(node, inspect.DateTimeType) and node.tz is False for node in nodes(hint))


def nodes(hint: Any) -> Iterator[inspect.Type]:
    """The type and all that it is made of, each once: types may hold themselves."""
    waiting, seen = [inspect.type_info(hint)], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting.extend(_parts(node))


def _parts(node: inspect.Type) -> Iterator[inspect.Type]:
    match node:
        case inspect.UnionType():
            yield from node.types
        case inspect.DictType():
            yield from (node.key_type, node.value_type)
        case inspect.TupleType():
            yield from node.item_types
        case inspect.CollectionType():
            yield node.item_type
        case (
            inspect.StructType()
            | inspect.DataclassType()
            | inspect.TypedDictType()
            | inspect.NamedTupleType()
        ):
            yield from (field.type for field in node.fields)
        case inspect.Metadata():
            yield node.type


def _problem_of(node: inspect.Type) -> str | None:
    match node:
        case inspect.CustomType(cls=kind) if not is_model(kind):
            return f"{named(kind)} cannot be stored: {_instead_of(kind)}"
        case inspect.RawType() | inspect.ExtType():
            return "msgspec's Raw and Ext cannot be stored: take Any for any JSON value"
        case inspect.DictType(key_type=key) if isinstance(key, _WITHOUT_KEYS):
            return (
                "a dict with keys of this type cannot be stored, as JSON has only text there: "
                "take keys of str, int, UUID, Enum or date, or a list of pairs"
            )
    return None


def _instead_of(kind: type) -> str:
    if kind is object:
        return "take Any for any JSON value"
    if issubclass(kind, str | int | float):
        plain = next(base.__name__ for base in kind.__mro__ if base in (str, int, float))
        return f"take {plain}, or a NewType of it to keep the name"
    if issubclass(kind, abc.Callable):  # type: ignore[arg-type]  # an ABC, which mypy sees as a form of typing
        return "take the name of what is to be called, and look it up in the job"
    if issubclass(kind, abc.Mapping):
        return "take a dict"
    if issubclass(kind, abc.Iterable) and not hasattr(kind, "read"):
        return "take a list"
    return "take what it can be made from, as JSON types, a dataclass or a msgspec Struct"


def _advised(problem: str) -> str:
    if "union" in problem:
        return f"{problem}. Take one type, or msgspec Structs with tag=True, which can be told apart"
    if "not defined" in problem:
        return f"{problem}. Define it where the class that names it can see it at run time"
    return problem


def named(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
