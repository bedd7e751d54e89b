"""`Secret[str]`: marks a parameter, or a field of one, whose value people must not see.

A type checker sees the type inside. The value is stored like any other, so that the handler gets it: it can
be read in the table and in dumps. What Holdfast shows, logs or exports has a mask in its place.
"""

import typing
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, NotRequired, Required, TypeVar, Union, get_args, get_origin

from holdfast.codec.json_hooks import is_model
from holdfast.codec.round_trip import field_names
from holdfast.domain.redaction import literal, path_of

T = TypeVar("T")


class SecretMark:
    """What `Secret[…]` adds to a type."""

    def __repr__(self) -> str:
        return "Secret"


SECRET = SecretMark()
Secret = Annotated[T, SECRET]

Steps = tuple[str, ...]

_DEEPEST = 20


def secret_paths(types: Mapping[str, Any]) -> tuple[str, ...]:
    """The places of all secrets among parameters of these types, as `domain/redaction.py` writes them."""
    found = (steps for name, hint in types.items() for steps in _secrets(hint, (literal(name),), ()))
    return tuple(dict.fromkeys(path_of(*steps) for steps in found))


def as_tree(value: Any, depth: int = 0) -> Any:
    """A value as nested dicts and lists, as far as its fields and items can be seen: to look for names."""
    if depth > _DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {str(key): as_tree(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [as_tree(item, depth + 1) for item in value]
    kind: type = type(value)
    names = field_names(kind) or ()
    return {name: as_tree(getattr(value, name, None), depth + 1) for name in names} if names else value


def unmarked(hint: Any) -> Any:
    """The type of a parameter without its own mark, so that plain types stay plain."""
    if get_origin(hint) is not Annotated:
        return hint
    inner, *marks = get_args(hint)
    kept = [mark for mark in marks if not isinstance(mark, SecretMark)]
    return Annotated[(inner, *kept)] if kept else inner


def _secrets(hint: Any, at: Steps, inside: tuple[Any, ...]) -> Iterator[Steps]:
    """`inside`: the classes around this type, each with where it began. A class that holds itself has its
    secrets at any depth.
    """
    if get_origin(hint) is Annotated:
        inner, *marks = get_args(hint)
        if any(isinstance(mark, SecretMark) for mark in marks):
            yield at
        else:
            yield from _secrets(inner, at, inside)
        return
    plain = get_origin(hint) or hint
    fields = _fields(plain) if isinstance(plain, type) else None
    if fields is None:
        yield from _of_items(hint, plain, at, inside)
    elif get_args(hint) and any(True for part in get_args(hint) for _ in _secrets(part, (), inside)):
        yield at  # a generic class filled with a secret: where it stands in there is not looked up
    elif plain not in inside:
        for name, inner in fields.items():
            for steps in _secrets(inner, (name,), (*inside, plain)):
                yield (*at, *steps)
                if _holds_itself(plain, fields):
                    yield (*at, "**", *steps)


def _of_items(hint: Any, plain: Any, at: Steps, inside: tuple[Any, ...]) -> Iterator[Steps]:
    parts = get_args(hint)
    if plain in (Union, UnionType, NotRequired, Required):
        for part in parts:
            yield from _secrets(part, at, inside)
    elif plain is tuple and not (len(parts) == 2 and parts[1] is Ellipsis):  # noqa: PLR2004  # tuple[X, ...]
        for index, part in enumerate(parts):
            yield from _secrets(part, (*at, str(index)), inside)
    elif isinstance(plain, type) and issubclass(plain, Mapping):
        yield from _secrets(parts[-1] if parts else Any, (*at, "*"), inside)
    elif isinstance(plain, type) and parts:
        yield from _secrets(parts[0], (*at, "*"), inside)
    elif isinstance(hint, typing.NewType):
        yield from _secrets(hint.__supertype__, at, inside)
    elif hasattr(hint, "__value__"):  # type Name = …
        yield from _secrets(hint.__value__, at, inside)


def _fields(kind: type) -> dict[str, Any] | None:
    """The fields of a class, as JSON names them; None for a class without fields."""
    if is_model(kind):
        return _fields_of_model(kind)
    if typing.is_typeddict(kind):
        return {literal(name): hint for name, hint in _hints(kind).items()}
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):  # a named tuple is a JSON array
        return {str(index): _hints(kind).get(name, Any) for index, name in enumerate(kind._fields)}
    names = field_names(kind)
    if names is None:
        return None
    written = getattr(kind, "__struct_encode_fields__", names)
    hints = _hints(kind)
    return {literal(told): hints.get(name, Any) for name, told in zip(names, written, strict=True)}


def _fields_of_model(kind: Any) -> dict[str, Any]:
    fields = {}
    for name, field in kind.model_fields.items():
        told = literal(field.serialization_alias or field.alias or name)
        is_secret = any(isinstance(mark, SecretMark) for mark in field.metadata)
        fields[told] = Annotated[field.annotation, SECRET] if is_secret else field.annotation
    return fields


def _hints(kind: type) -> dict[str, Any]:
    """As far as they can be read. A class that cannot be stored at all is refused elsewhere."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:  # noqa: BLE001  # annotations are the user's code, and may raise anything
        return {}


def _holds_itself(kind: type, fields: Mapping[str, Any]) -> bool:
    return any(_mentions(hint, kind, ()) for hint in fields.values())


def _mentions(hint: Any, kind: type, seen: tuple[Any, ...]) -> bool:
    plain = get_origin(hint) or hint
    if plain is kind:
        return True
    inner: list[Any] = list(get_args(hint))
    if isinstance(plain, type) and plain not in seen:
        inner += (_fields(plain) or {}).values()
    return any(_mentions(part, kind, (*seen, plain)) for part in inner)
