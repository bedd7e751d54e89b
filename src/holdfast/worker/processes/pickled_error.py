"""An exception of a handler on its way from the child to the worker: rebuilt there with its own class if
possible, else as a stand-in of the same name, always with message, causes and the child's traceback.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from holdfast.worker.failure_from_error import from_error
from holdfast.worker.processes.pickles import dump, load

_PICKLE_LIMIT = 1024 * 1024
_LONGEST_CHAIN = 10


class RaisedInChild(Exception):
    """The root of the stand-ins for errors that cannot be rebuilt in the worker."""


@dataclass(frozen=True, slots=True)
class PickledError:
    """One error and the one behind it, as Python would show them: `is_cause` if it was raised from that
    one. `traceback` is that of the whole chain, and stands with its last link.
    """

    module: str
    name: str
    text: str
    pickled: bytes | None
    notes: tuple[str, ...]
    traceback: str | None
    behind: Self | None
    is_cause: bool

    @classmethod
    def of(cls, error: BaseException, *, links: int = _LONGEST_CHAIN) -> "PickledError":
        """In the child. Never raises, even if the error's own code does."""
        shown = from_error(error)
        behind = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return PickledError(
            module=type(error).__module__,
            name=type(error).__qualname__,
            text=shown.message,
            pickled=_pickled(error, shown.message),
            notes=tuple(str(note) for note in getattr(error, "__notes__", ())),
            traceback=shown.traceback if links == _LONGEST_CHAIN else None,
            behind=None if behind is None or links <= 1 else cls.of(behind, links=links - 1),
            is_cause=error.__cause__ is not None,
        )

    def rebuilt(self) -> Exception:
        """In the worker. Has its own class if that is known here, so that a retry policy can decide by it."""
        error = self._same() or self._stand_in()
        if self.behind is not None:
            error.__context__ = self.behind.rebuilt()
            error.__cause__ = error.__context__ if self.is_cause else None
            error.__suppress_context__ = self.is_cause
        if self.traceback is not None:
            with suppress(TypeError):  # only if its class has notes of another kind
                error.add_note(f"In its child process:\n{self.traceback.rstrip()}")
        return error

    def _same(self) -> Exception | None:
        if self.pickled is None:
            return None
        try:
            error = load(self.pickled, imports=False)
        except Exception:  # noqa: BLE001  # code of the user's class runs here
            return None
        # Nothing that would pass for the worker's own: a SystemExit, a CancelledError.
        return error if isinstance(error, Exception) else None

    def _stand_in(self) -> Exception:
        module = "__main__" if self.module == "__mp_main__" else self.module
        stand_in = type(
            self.name.rpartition(".")[2], (RaisedInChild,), {"__module__": module, "__qualname__": self.name}
        )
        error: Exception = stand_in(self.text)
        for note in self.notes:
            error.add_note(note)
        return error


def _pickled(error: BaseException, text: str) -> bytes | None:
    """A pickle that was read back here as the same error: many classes pickle well and then cannot be made
    again, because `__init__` takes something else than it passes on as the message.
    """
    for attempt in _ATTEMPTS:
        try:
            data = dump(attempt(error))
            copy = load(data)
            if type(copy) is type(error) and str(copy) == text and len(data) <= _PICKLE_LIMIT:
                return data
        except Exception:  # noqa: BLE001, S112  # a user's class may do anything; the stand-in is always left
            continue
    return None


class _Parts:
    """Pickled as an error that is made again without its `__init__`."""

    def __init__(self, error: BaseException, attributes: dict[str, Any]) -> None:
        self._parts = (type(error), error.args, attributes)

    def __reduce__(self) -> tuple[Callable[..., BaseException], tuple[Any, ...]]:
        return _made_again, self._parts


def _made_again(
    kind: type[BaseException], args: tuple[Any, ...], attributes: dict[str, Any]
) -> BaseException:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


def _picklable(attributes: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for name, value in attributes.items():
        with suppress(Exception):
            load(dump(value))
            kept[name] = value
    return kept


# From the most faithful to the least: errors of the interpreter's own keep what is not in their dict only
# as a whole, and errors of HTTP clients hold a connection that cannot travel.
_ATTEMPTS: tuple[Callable[[BaseException], object], ...] = (
    lambda error: _Parts(error, vars(error)),
    lambda error: error,
    lambda error: _Parts(error, _picklable(vars(error))),
)
