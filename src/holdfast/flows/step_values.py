"""A step's result as JSON, and back by its type. A value that would not come back the same is refused at
once, not when the flow is replayed a month later.
"""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args, get_origin

import msgspec

from holdfast.codec.complaints import complaint, quoted, unwritable
from holdfast.codec.hints import hints_of
from holdfast.codec.json_hooks import from_json_types
from holdfast.codec.result import encoder
from holdfast.codec.round_trip import Comparison
from holdfast.codec.storable_types import takes_naive
from holdfast.domain.job import ARGS_LIMIT, check_args_text
from holdfast.errors import InvalidInput, Undecodable
from holdfast.worker.context import Context


class StoredUndecodable(Undecodable):
    """Ours, and not one that the user's code has met elsewhere: it parks the flow."""


class Unkeepable(InvalidInput):
    """Ours, too: what a step gave cannot be kept, and would not be better the next time."""


@dataclass(frozen=True, slots=True)
class Typed:
    """Values of one type."""

    hint: Any
    _decoder: msgspec.json.Decoder[Any]
    _comparison: Comparison

    @classmethod
    def of(cls, hint: Any) -> "Typed":
        try:
            decoder = msgspec.json.Decoder(hint, dec_hook=from_json_types)
        except Exception as error:  # reading the user's classes runs the user's code
            raise InvalidInput(f"values of type {hint!r} cannot be kept: {error}") from error
        return cls(hint, decoder, Comparison(takes_naive(hint)))

    @property
    def type_name(self) -> str:
        """For people: `shop.jobs.Decision`, `list[int]`."""
        hint = self.hint
        if not isinstance(hint, type):
            return str(hint)
        return (
            hint.__qualname__ if hint.__module__ == "builtins" else f"{hint.__module__}.{hint.__qualname__}"
        )

    def encode(self, what: str, value: Any) -> str | None:
        """The text that is kept, read back once to be sure of it; None for None."""
        if value is None:
            return None
        try:
            text = encoder.encode(value).decode()
            check_args_text(text, limit=ARGS_LIMIT)
            changed = self._comparison.difference(value, self._decoder.decode(text))
        except Exception as error:  # a model of the user's may raise anything
            raise Unkeepable(f"{what} cannot be kept: {error}") from error
        if changed:
            raise Unkeepable(
                f"{what} cannot be kept as it is: {changed.path} {changed.problem}. Annotate what the "
                "function returns, or return less"
            )
        return text

    def written(self, what: str, value: Any) -> str:
        """The JSON text of a value that the caller gives; InvalidInput if it is not of this type."""
        name = getattr(self.hint, "__name__", None) or str(self.hint)
        try:
            text = encoder.encode(value).decode()
            check_args_text(text, limit=ARGS_LIMIT)
        except Exception as error:  # a model of the user's may raise anything
            raise InvalidInput(f"{what} {unwritable(error)}") from error
        try:
            changed = self._comparison.difference(value, self._decoder.decode(text))
        except Exception as error:  # as above
            raise InvalidInput(
                f"{what} is not of type {name}: {complaint(error)}. Given: {quoted(text)}"
            ) from error
        if changed:
            raise InvalidInput(
                f"{what} is not of type {name}: {f'{changed.path} {changed.problem}'.strip()}. "
                f"Given: {quoted(text)}"
            )
        return text

    def decode(self, what: str, text: str | None) -> Any:
        if text is None:
            return None
        try:
            return self._decoder.decode(text)
        except Exception as error:
            raise StoredUndecodable(
                f"{what} does not fit its type: {complaint(error)}. It was given as something else, or the "
                f"definition has changed since. Kept: {quoted(text)}",
                text=text,
            ) from error


ANYTHING = Typed.of(Any)


@lru_cache(maxsize=4_096)
def returned_by(function: Callable[..., Any]) -> Typed:
    """The type that a function says it returns. What cannot be read says nothing: such values are kept as
    plain JSON, if nothing of them is lost by that.
    """
    try:
        hint = hints_of(function, context=Context, localns=None).get("return", Any)
        if get_origin(hint) in (Awaitable, Coroutine):
            hint = get_args(hint)[-1]
        return Typed.of(hint)
    except Exception:  # noqa: BLE001  # a function of any library may be a step
        return ANYTHING
