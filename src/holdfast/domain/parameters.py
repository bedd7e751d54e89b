"""Arguments checked against what is stored of a kind, where its code is not at hand: names, those that are
required, and plain JSON types. The worker checks the rest when it reads them.

A complaint names places and types, never values: they may be secret.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from holdfast.domain.job import is_whole

_PLAIN = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": is_whole,
    "number": lambda value: is_whole(value) or isinstance(value, float),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_DEPTH = 20
"""Deeper than any argument that people write: a schema may name itself."""


@dataclass(frozen=True, slots=True)
class KindParameter:
    """One parameter of a kind. `type` is in words. `is_secret`: it holds something that is masked."""

    name: str
    type: str
    is_required: bool
    is_secret: bool


@dataclass(frozen=True, slots=True)
class Complaint:
    """`parameter` is None if the call as a whole is wrong."""

    parameter: str | None
    problem: str


def names_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """All parameters, required ones first and in their order; the database keeps no order of the others."""
    record = _resolved(schema, schema)
    known = record.get("properties", {})
    required = [name for name in record.get("required", ()) if name in known]
    return (*required, *sorted(known.keys() - set(required)))


def required_of(schema: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(_resolved(schema, schema).get("required", ()))


def type_of(schema: Mapping[str, Any], name: str) -> str:
    """The type of a parameter in words: `a whole number`, `a list of text`."""
    return _worded(_resolved(schema, schema).get("properties", {}).get(name, {}), schema)


def complaint_about(schema: Mapping[str, Any], args: Mapping[str, Any]) -> Complaint | None:
    """The first thing that is wrong with arguments; None if a worker would probably take them."""
    names, required = names_of(schema), required_of(schema)
    takes = f"it takes {', '.join(names)}" if names else "it takes no arguments"
    record = _resolved(schema, schema)
    for name in args:
        if name not in names and record.get("additionalProperties") is not True:
            near = get_close_matches(name, names, n=1)
            meant = f' (did you mean "{near[0]}"?)' if near else ""
            return Complaint(None, f'it has no parameter "{name}"{meant}; {takes}')
    missing = [name for name in names if name in required and name not in args]
    if missing:
        listed = ", ".join(f'"{name}"' for name in missing)
        return Complaint(None, f"{listed} must be given; {takes}")
    properties = record.get("properties", {})
    found = (
        each for name, value in args.items() for each in _wrong(value, properties.get(name), schema, name)
    )
    return next(found, None)


def _wrong(
    value: Any, wanted: Any, root: Mapping[str, Any], place: str, depth: int = 0
) -> Iterator[Complaint]:
    """What does not fit, the outermost place first. What the schema leaves open fits."""
    wanted = _resolved(wanted, root)
    if depth > _DEPTH or not wanted:
        return
    choices = wanted.get("anyOf") or wanted.get("oneOf")
    if choices:
        alike = [each for each in choices if _is_of_type(value, _resolved(each, root))]
        if len(alike) == 1:
            yield from _wrong(value, alike[0], root, place, depth + 1)
        elif all(next(_wrong(value, each, root, place, depth + 1), None) is not None for each in choices):
            yield _unfit(value, wanted, root, place)
        return
    if not _is_of_type(value, wanted):
        yield _unfit(value, wanted, root, place)
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _wrong(item, wanted.get("items"), root, f"{place}[{index}]", depth + 1)
    elif isinstance(value, dict):
        yield from _wrong_fields(value, wanted, root, place, depth)


def _wrong_fields(
    value: dict[str, Any], wanted: Mapping[str, Any], root: Mapping[str, Any], place: str, depth: int
) -> Iterator[Complaint]:
    fields, others = wanted.get("properties", {}), wanted.get("additionalProperties")
    for name in wanted.get("required", ()):
        if name not in value:
            yield Complaint(place, f'it has no "{name}"')
    for name, item in value.items():
        yield from _wrong(item, fields.get(name, others), root, f"{place}.{name}", depth + 1)


def _is_of_type(value: Any, wanted: Mapping[str, Any]) -> bool:
    if "enum" in wanted:
        return any(
            value == each and isinstance(value, bool) == isinstance(each, bool) for each in wanted["enum"]
        )
    fits = _FITS.get(str(wanted.get("type")))
    return fits is None or fits(value)


def _unfit(value: Any, wanted: Mapping[str, Any], root: Mapping[str, Any], place: str) -> Complaint:
    given = next(word for name, word in _PLAIN.items() if _is_of_type(value, {"type": name}))
    return Complaint(
        place, f"it must be {_worded(wanted, root)}" + ("" if "enum" in wanted else f", not {given}")
    )


def _worded(wanted: Any, root: Mapping[str, Any], depth: int = 0) -> str:
    title = _title(wanted)
    wanted = _resolved(wanted, root)
    if depth > _DEPTH or not wanted:
        return "anything"
    if choices := wanted.get("anyOf") or wanted.get("oneOf"):
        return " or ".join(_worded(each, root, depth + 1) for each in choices)
    if "enum" in wanted:
        return "one of " + ", ".join(json.dumps(each, ensure_ascii=False) for each in wanted["enum"])
    kind = wanted.get("type")
    if kind == "array" and isinstance(wanted.get("items"), dict):
        return f"a list of {_worded(wanted['items'], root, depth + 1)}"
    more = title if kind == "object" else wanted.get("format") if kind == "string" else None
    return _PLAIN.get(str(kind), "anything") + (f" ({more})" if more else "")


def _title(wanted: Any) -> str:
    return str(wanted["$ref"]).rpartition("/")[2] if isinstance(wanted, Mapping) and "$ref" in wanted else ""


def _resolved(wanted: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a reference stands for; one that leads nowhere leaves all open."""
    for _ in range(_DEPTH):
        if not isinstance(wanted, Mapping):
            return {}
        if "$ref" not in wanted:
            return wanted
        wanted = root.get("$defs", {}).get(_title(wanted))
    return {}
