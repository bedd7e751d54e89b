"""What a function takes and returns once its annotations are read: checked, and made ready for every job."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Annotated, Any, Never, NoReturn, get_args, get_origin

import msgspec

from holdfast.codec.hints import Function, hints_of, name_of
from holdfast.codec.json_hooks import from_json_types
from holdfast.codec.result import encoder
from holdfast.codec.round_trip import PLAIN, Comparison, Difference, is_plainly_same
from holdfast.codec.secrets import as_tree, secret_paths, unmarked
from holdfast.codec.storable_types import problem_with, takes_naive
from holdfast.domain.redaction import Redaction, named
from holdfast.errors import InvalidInput, UnstorableType

_EXACT = (int, str, bool)


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters without the context, in the sets that binding asks for, and the two decoders."""

    takes_context: bool
    call: Signature
    names: frozenset[str]
    positional: tuple[str, ...]
    required: frozenset[str]
    optional: tuple[str, ...]
    defaults: Mapping[str, Any]
    written_defaults: Mapping[str, Any]
    """As JSON holds them, to look for secrets there."""
    comparisons: Mapping[str, Comparison]
    record: type[msgspec.Struct]
    arguments: msgspec.json.Decoder[msgspec.Struct]
    result: msgspec.json.Decoder[Any]
    plain: tuple[type, ...] | None
    """The types of all arguments, if two values of each are the same whenever they are equal; else None."""
    is_exact: bool
    """Whether every value of these types survives JSON. A float may not: JSON has no NaN and no infinity."""
    redaction: Redaction
    """The secret places of the arguments; those of the result begin with `/return`."""
    may_hold_secrets: bool
    """Whether an argument can be one of them: plain values with other names cannot."""

    def changed(self, given: Mapping[str, Any], taken: msgspec.Struct) -> Difference | None:
        """What was given, against what was read back from its JSON."""
        for name, value in given.items():
            read = getattr(taken, name)
            if is_plainly_same(value, read):
                continue
            if found := self.comparisons[name].difference(value, read):
                return found.under(name)
        return None


def shape_of(
    function: Function,
    parameters: Mapping[str, Parameter],
    *,
    context: type,
    localns: Mapping[str, Any] | None = None,
    secret_names: tuple[str, ...] = (),
) -> Shape:
    hints = hints_of(function, context=context, localns=localns)
    first = _first(parameters)
    takes_context = first is not None and _plain(hints.get(first)) is context
    if first is not None and not takes_context:
        _check_first(name_of(function), first, hints.get(first, Any), context)
    own = [p for p in parameters.values() if not (takes_context and p.name == first)]
    marked = {parameter.name: hints.get(parameter.name, Any) for parameter in own}
    types = {name: unmarked(hint) for name, hint in marked.items()}
    result = hints.get("return", Any)
    if result in (Never, NoReturn):
        result = None
    _check(name_of(function), {**types, "return": result}, context)
    record = _record(name_of(function), own, types)
    redaction = Redaction.of([*secret_paths({**marked, "return": result}), *named(secret_names)])
    is_plain = all(map(_is_plain, types.values()))
    defaults = {p.name: p.default for p in own if p.default is not Parameter.empty}
    return Shape(
        takes_context=takes_context,
        call=Signature([p.replace(annotation=hints.get(p.name, Parameter.empty)) for p in own]),
        names=frozenset(types),
        positional=tuple(p.name for p in own if p.kind is not Parameter.KEYWORD_ONLY),
        required=frozenset(p.name for p in own if p.default is Parameter.empty),
        optional=tuple(p.name for p in own if p.default is not Parameter.empty),
        defaults=defaults,
        written_defaults={name: _written(value) for name, value in defaults.items()},
        comparisons={name: Comparison(takes_naive(hint)) for name, hint in types.items()},
        record=record,
        arguments=msgspec.json.Decoder(record, dec_hook=from_json_types),
        result=msgspec.json.Decoder(result, dec_hook=from_json_types),
        plain=tuple(types.values()) if is_plain else None,
        is_exact=all(hint in _EXACT for hint in types.values()),
        redaction=redaction,
        may_hold_secrets=bool(redaction.paths)
        and (not is_plain or any(redaction.covers([name]) for name in types)),
    )


def _record(name: str, own: list[Parameter], types: dict[str, Any]) -> type[msgspec.Struct]:
    """All arguments as one object: it refuses unknown names, and leaves UNSET what was not given."""
    fields: list[Any] = [
        (p.name, types[p.name]) if p.default is Parameter.empty else (p.name, types[p.name], msgspec.UNSET)
        for p in own
    ]
    has_keywords = any(p.kind is Parameter.KEYWORD_ONLY for p in own)
    return msgspec.defstruct(name, fields, kw_only=has_keywords, forbid_unknown_fields=True)


def _written(default: Any) -> Any:
    try:
        return json.loads(encoder.encode(default))
    except Exception:  # noqa: BLE001  # a default need not have a form in JSON: it is never stored
        return as_tree(default)


def _is_plain(hint: Any) -> bool:
    return isinstance(hint, type) and hint in PLAIN


def _first(parameters: Mapping[str, Parameter]) -> str | None:
    """The one that may be the context, which is passed by position."""
    parameter = next(iter(parameters.values()), None)
    return None if parameter is None or parameter.kind is Parameter.KEYWORD_ONLY else parameter.name


def _check_first(function: str, name: str, hint: Any, context: type) -> None:
    if _plain(hint) is Any:
        raise InvalidInput(
            f"{function}({name}): the first parameter has no type, so it may be meant as the context: "
            f"annotate it {context.__name__}, or with the type of its values"
        )


def _check(function: str, types: dict[str, Any], context: type) -> None:
    for name, hint in types.items():
        if _mentions(hint, context):
            raise InvalidInput(
                f"{function}({name}): the context cannot be stored: take it as the first parameter, "
                f"annotated {context.__name__} and nothing else"
            )
        if problem := problem_with(hint):
            raise UnstorableType(function, name, problem)


def _plain(hint: Any) -> Any:
    """Without `Annotated`, and without what a generic class is filled with."""
    if get_origin(hint) is Annotated:
        return _plain(get_args(hint)[0])
    return get_origin(hint) or hint


def _mentions(hint: Any, context: type) -> bool:
    return _plain(hint) is context or any(_mentions(part, context) for part in get_args(hint))
