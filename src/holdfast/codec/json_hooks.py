"""The types that msgspec does not handle by itself: models of pydantic, and subclasses of the plain types.

pydantic is optional and never imported here: a model exists only if the user's code has imported it.
"""

import sys
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec


def is_model(kind: object) -> bool:
    """Whether this is a class of pydantic's models."""
    pydantic = sys.modules.get("pydantic.main")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def to_json_types(value: Any) -> Any:  # noqa: PLR0911  # a return for each type
    """Called by the encoder for what it does not know."""
    if is_model(type(value)):
        # warnings="error": a field that was set to a value of another type is refused, not guessed at.
        return value.model_dump(mode="json", by_alias=True, warnings="error")
    match value:
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
        case bytes():
            return bytes.__bytes__(value)
        case Decimal():
            return Decimal(value)
        case datetime():
            return datetime.combine(value.date(), value.timetz()).replace(fold=value.fold)
        case timedelta():
            return timedelta(value.days, value.seconds, value.microseconds)
        case _:
            raise TypeError(f"JSON has no form for {type(value).__name__}")


def from_json_types(kind: Any, value: Any) -> Any:
    """Called by the decoder for a type it does not know: one that was let through as storable is a model.

    A model is read from JSON text: there its strict fields, too, take a date or a UUID written as text.
    """
    if not is_model(kind):
        raise TypeError(f"{kind.__name__} cannot be read from JSON")
    pydantic = sys.modules["pydantic"]
    try:
        return kind.model_validate_json(msgspec.json.encode(value))
    except pydantic.ValidationError as error:
        problems = (_line(problem["loc"], problem["msg"]) for problem in error.errors(include_url=False))
        raise ValueError("; ".join(problems)) from error


def _line(place: tuple[int | str, ...], message: str) -> str:
    return f"{'.'.join(map(str, place))}: {message}" if place else message
