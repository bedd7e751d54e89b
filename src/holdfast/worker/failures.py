"""From what a handler raised to what is stored of it."""

import traceback

from holdfast.domain.failure import Code, Failure


def from_error(error: BaseException, code: Code = "handler_error") -> Failure:
    """Type, message, traceback and the chain of causes. An error that cannot even be shown is named."""
    return Failure(
        message=_text(error),
        code=code,
        type=_name(error),
        traceback=_traceback(error),
        causes=tuple(f"{_name(cause)}: {_text(cause)}" for cause in _causes(error)),
    )


def _name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as worse:  # noqa: BLE001  # a user's __str__ may do anything
        return f"(its message could not be shown: {type(worse).__name__})"


def _traceback(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except Exception as worse:  # noqa: BLE001  # a user's __str__ may do anything
        return f"(its traceback could not be shown: {type(worse).__name__})"


def _causes(error: BaseException) -> list[BaseException]:
    """What Python would show: what is in a group, the explicit cause, or the context if not suppressed."""
    causes = _members(error)
    seen = {id(error)}
    current: BaseException | None = error
    while current is not None:
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
        if current is None or id(current) in seen:
            break
        seen.add(id(current))
        causes.append(current)
    return causes


def _members(error: BaseException) -> list[BaseException]:
    """The errors inside of a group, and of groups in it."""
    if not isinstance(error, BaseExceptionGroup):
        return []
    return [
        leaf
        for member in error.exceptions
        for leaf in (_members(member) if isinstance(member, BaseExceptionGroup) else [member])
    ]
