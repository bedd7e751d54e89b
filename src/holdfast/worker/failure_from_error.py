"""Turns an exception into the Failure that is stored of it."""

import traceback
from collections.abc import Iterator
from itertools import islice

from holdfast.domain.failure import CAUSES_LIMIT, MESSAGE_LIMIT, Code, Failure

# Of a longer chain only the last error's own traceback is kept.
_CHAIN_LIMIT = 100


def from_error(error: BaseException, code: Code = "handler_error") -> Failure:
    """Type, message, traceback and the chain of causes. Never raises, even if the error's own code does."""
    causes = list(islice(_causes(error), _CHAIN_LIMIT))
    return Failure(
        message=_text(error),
        code=code,
        type=_name(error),
        traceback=_traceback(error, is_whole=len(causes) < _CHAIN_LIMIT),
        causes=tuple(f"{_name(cause)}: {_text(cause)}" for cause in causes[:CAUSES_LIMIT]),
    )


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return str(error)[:MESSAGE_LIMIT]
    except Exception as worse:  # noqa: BLE001  # a user's __str__ may do anything
        return f"(its message could not be shown: {type(worse).__name__})"


def _traceback(error: BaseException, *, is_whole: bool) -> str:
    try:
        if not is_whole:
            # No chain, and of a group no members.
            shown = traceback.format_tb(error.__traceback__)
            return "".join(
                ["Traceback (most recent call last):\n", *shown, f"{_name(error)}: {_text(error)}\n"]
            )
        return "".join(traceback.format_exception(error))
    except Exception as worse:  # noqa: BLE001  # a user's __str__ may do anything
        return f"(its traceback could not be shown: {type(worse).__name__})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """What Python would show: what is in a group, the explicit cause, or the context if not suppressed."""
    yield from _members(error)
    seen = {id(error)}
    current: BaseException | None = error
    while current is not None:
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if current is None or id(current) in seen:
            break
        seen.add(id(current))
        yield current


def _members(error: BaseException) -> Iterator[BaseException]:
    """The errors inside a group, and inside groups in it, however deep."""
    waiting = [error]
    while waiting:
        member = waiting.pop()
        if isinstance(member, BaseExceptionGroup):
            waiting.extend(reversed(member.exceptions))
        elif member is not error:
            yield member
