"""A job's signature: what it takes and returns, and both of them as JSON.

Arguments are stored by name, and only those that were given: a default is that of the code that runs.
"""

import json
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from inspect import Parameter
from typing import Any

import msgspec

from holdfast.codec.complaints import Complaint, complaint, quoted, told, unwritable
from holdfast.codec.hints import Function, name_of, parameters_of
from holdfast.codec.json_hooks import to_json_types
from holdfast.codec.json_schema import json_schema
from holdfast.codec.result import RESULT_LIMIT, encoder, success
from holdfast.codec.round_trip import shown
from holdfast.codec.secrets import as_tree
from holdfast.codec.shape import Shape, shape_of
from holdfast.domain.job import ARGS_LIMIT, check_args_text
from holdfast.domain.limit_keys import KindLimit
from holdfast.domain.outcome import Succeeded
from holdfast.domain.redaction import MASK, Redaction
from holdfast.errors import InvalidArguments, InvalidInput, Undecodable

_in_order = msgspec.json.Encoder(enc_hook=to_json_types, order="deterministic")


class Signature:
    """The parameters and the result of one function. Made at decoration, resolved when the app starts."""

    __slots__ = ("_context", "_function", "_parameters", "_secret_names", "_shape", "_stored", "name")

    def __init__(
        self,
        function: Function,
        parameters: Mapping[str, Parameter],
        context: type,
        secret_names: tuple[str, ...] = (),
    ) -> None:
        self.name = name_of(function)
        self._function = function
        self._parameters = parameters
        self._context = context
        self._secret_names = secret_names
        self._shape: Shape | None = None
        self._stored: Redaction | None = None

    @classmethod
    def of(cls, function: Function, *, context: type, secret_names: tuple[str, ...] = ()) -> "Signature":
        """Reads the parameters only: the names in their annotations may not be defined yet. `secret_names`
        are patterns of what is secret by its name.
        """
        return cls(function, parameters_of(function), context, secret_names)

    @property
    def takes_context(self) -> bool:
        """Whether the first parameter is the context."""
        return (self._shape or self._resolved()).takes_context

    @property
    def names(self) -> frozenset[str]:
        """The parameters that arguments are stored by: all but the context."""
        return self._resolved().names

    @property
    def redaction(self) -> Redaction:
        """What of the arguments people must not see; what of the result, below `return`."""
        return (self._shape or self._resolved()).redaction

    @property
    def may_hold_secrets(self) -> bool:
        """Whether arguments can hold one; False spares a look at those of every failed run."""
        return (self._shape or self._resolved()).may_hold_secrets

    def secrets_in(self, text: str) -> tuple[str, ...]:
        """The secret values among stored arguments, as texts."""
        return self._secrets_in(text, {})

    def secrets_taken(self, text: str) -> tuple[str, ...]:
        """The secret values that the function is called with: of arguments that were not given, the defaults
        are.
        """
        taken = self._secrets_in(text, (self._shape or self._resolved()).written_defaults)
        return taken if self._stored is None else tuple(dict.fromkeys((*taken, *self._once_secret(text))))

    def remember(self, stored: Redaction) -> None:
        """What other versions of the code have declared to be secret: arguments that they wrote may still
        come, under names that this version does not know.
        """
        self._stored = stored if stored.paths else None

    def _once_secret(self, text: str) -> tuple[str, ...]:
        try:
            return () if self._stored is None else self._stored.secrets_in(json.loads(text))
        except ValueError:
            return ()

    def _secrets_in(self, text: str, defaults: Mapping[str, Any]) -> tuple[str, ...]:
        if not self.may_hold_secrets:
            return ()
        try:
            stored = json.loads(text)
        except ValueError:
            return ()
        return self.redaction.secrets_in({**defaults, **stored} if isinstance(stored, dict) else stored)

    def json_schema(self) -> dict[str, Any]:
        """The parameters as JSON Schema."""
        return json_schema(self._resolved().record)

    def resolve(self, localns: Mapping[str, Any] | None = None) -> None:
        """Read the annotations and check that all of them can be stored. Harmless when repeated."""
        self._resolved(localns)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, limit: int = ARGS_LIMIT) -> str:
        """The arguments of this call as the text of a JSON object, read back once to be sure of it."""
        shape = self._shape or self._resolved()
        if shape.plain is not None and (plain := _plainly(shape, args, kwargs, limit)) is not None:
            return plain
        given = self._bound(shape, args, kwargs)
        try:
            text = encoder.encode(given).decode()
            check_args_text(text, limit=limit)
        except Exception as error:  # a model of the user's may raise anything
            raise self._unwritable(given, error, limit) from error
        try:
            changed = shape.changed(given, shape.arguments.decode(text))
        except Exception as error:
            raise self._refused(given, complaint(error)) from error
        if changed:
            raise self._invalid(given, changed.path, changed.problem)
        return text

    def keyed(self, text: str) -> str:
        """What `encode` gave, as a key is made of it: defaults stand in for what was not given, sets are in
        order. A default that JSON has no form for stays absent.
        """
        shape = self._shape or self._resolved()
        whole = {name: value for name, value in shape.defaults.items() if _is_writable(value)}
        whole |= self.decode(text)
        try:
            # Read once, so that a default of 1 is the 1.0 of a float.
            taken = msgspec.structs.asdict(shape.arguments.decode(encoder.encode(whole)))
        except Exception:  # noqa: BLE001  # a default of another type than its parameter's
            taken = whole
        return _in_order.encode({name: taken[name] for name in whole}).decode()

    def limited(self, limit: str, by: tuple[str, ...]) -> KindLimit:
        """How calls use a limit whose key are these parameters."""
        shape = self._shape or self._resolved()
        self.check_names(by, f'limit "{limit}"')
        defaults = {name: shape.written_defaults[name] for name in by if name in shape.defaults}
        is_secret = any(self.redaction.covers([name]) for name in by)
        return KindLimit(limit, by, defaults, is_secret=is_secret)

    def check_names(self, names: Iterable[str], whose: str) -> None:
        """Refuse what is no parameter. Before the annotations are read, the context counts as one."""
        known = self._shape.names if self._shape else frozenset(self._parameters)
        for name in names:
            if name not in known:
                takes = ", ".join(sorted(known)) or "nothing"
                near = get_close_matches(name, known, 1)
                meant = f" (did you mean {near[0]}?)" if near else ""
                problem = f"{name!r}{meant}, which is not a parameter of {self.name}: it takes {takes}"
                raise InvalidInput(f"{whose} names {problem}")

    def decode(self, text: str) -> dict[str, Any]:
        """Keyword arguments for the call: those that were given when the job was enqueued."""
        shape = self._shape or self._resolved()
        try:
            arguments = msgspec.structs.asdict(shape.arguments.decode(text))
        except Exception as error:
            shown_text = self._shown_text(text)
            raise Undecodable(
                f"{self.name}() cannot take its stored arguments: {told(complaint(error))}. Its definition "
                f"has probably changed between enqueueing and running. Stored: {quoted(shown_text)}",
                text=shown_text,
            ) from error
        for name in shape.optional:
            if arguments[name] is msgspec.UNSET:
                del arguments[name]
        return arguments

    def encode_result(self, value: Any, *, limit: int = RESULT_LIMIT) -> Succeeded:
        """The success of a handler that returned `value`. Never raises: what cannot be stored is dropped and
        flagged. The value is not checked against the return type: the job is done, and its reader is told.
        """
        return success(value, self._shape.result if self._shape else None, limit=limit)

    def decode_result(self, text: str | None) -> Any:
        """The result as the return type has it; None when there is none."""
        if text is None:
            return None
        shape = self._shape or self._resolved()
        try:
            return shape.result.decode(text)
        except Exception as error:
            raise Undecodable(
                f"what {self.name}() returned does not fit its return type: {complaint(error)}. The "
                "handler returned another type than its annotation says, or the annotation has changed "
                f"since. Stored: {quoted(text)}",
                text=text,
            ) from error

    def _resolved(self, localns: Mapping[str, Any] | None = None) -> Shape:
        """Built completely before it is stored: two threads may both build it, but none sees half of it."""
        if self._shape is None:
            self._shape = shape_of(
                self._function,
                self._parameters,
                context=self._context,
                localns=localns,
                secret_names=self._secret_names,
            )
        return self._shape

    def _bound(self, shape: Shape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Bound by hand, since `inspect` takes several times as long. If that fails, `inspect` words the
        error.
        """
        if not kwargs and len(args) == len(shape.names) == len(shape.positional):
            return dict(zip(shape.positional, args, strict=True))
        given = dict(zip(shape.positional, args, strict=False))
        given.update(kwargs)
        is_whole = len(given) == len(args) + len(kwargs)
        if is_whole and shape.required <= given.keys() <= shape.names:
            return given
        try:
            return dict(shape.call.bind(*args, **kwargs).arguments)
        except TypeError as error:
            problem = _unknown(kwargs, shape) or str(error)
            raise InvalidArguments(self.name, None, f"{problem}; it takes {shape.call}") from None

    def _unwritable(self, given: dict[str, Any], error: Exception, limit: int) -> InvalidArguments:
        """Names the argument that cannot be written, if it is a single one's fault."""
        for name, value in given.items():
            try:
                check_args_text(encoder.encode({name: value}).decode(), limit=limit)
            except Exception as its_own:  # noqa: BLE001  # as in encode
                return self._invalid(given, name, f"{shown(value)} {unwritable(its_own)}")
        return InvalidArguments(self.name, None, f"the whole {unwritable(error)}")

    def _refused(self, given: dict[str, Any], found: Complaint) -> InvalidArguments:
        """An argument that its own type refuses, with what was given in place of what JSON made of it."""
        problem = found.problem
        if found.path in given and not found.shows_the_value:
            problem = f"{problem.split(', got ')[0]}, got {shown(given[found.path])}"
        return self._invalid(given, found.path or None, problem)

    def _invalid(self, given: dict[str, Any], place: str | None, problem: str) -> InvalidArguments:
        """Without the value, if it is secret or holds a secret."""
        steps = [step for step in re.split(r"[.\[\]'\"]+", place or "") if step]
        is_secret = self.redaction.covers(steps[:1]) or self.redaction.covers(steps)
        if is_secret or self.redaction.anywhere().has_secrets_in(
            as_tree(given.get(steps[0]) if steps else given)
        ):
            expected, got, _ = problem.partition(", got ")
            problem = f"{expected}, got {MASK}" if got else "its value is refused; it is secret and not shown"
        return InvalidArguments(self.name, place, problem)

    def _shown_text(self, text: str) -> str:
        """Stored arguments as an error repeats them, without their secrets."""
        if not self.redaction.paths:
            return text
        try:
            stored = json.loads(text)
            masked = self.redaction.masked(stored)
            return text if masked == stored else json.dumps(masked, ensure_ascii=False)
        except ValueError:
            return MASK


def _plainly(shape: Shape, args: tuple[Any, ...], kwargs: dict[str, Any], limit: int) -> str | None:
    """What `encode` gives, at a third of its price, when all arguments are given and exactly of plain types.
    None says nothing: then they are looked at closely.
    """
    try:
        record = shape.record(*args, **kwargs)
        if tuple(map(type, msgspec.structs.astuple(record) if kwargs else args)) != shape.plain:
            return None
        text = encoder.encode(record)
        is_same = shape.is_exact or shape.arguments.decode(text) == record
    except Exception:  # noqa: BLE001  # the close look finds the problem again, and explains it
        return None
    # A single byte is found in a tenth of the time.
    holds_nul = b"\\" in text and b"\\u0000" in text
    return text.decode() if is_same and len(text) <= limit and not holds_nul else None


def _unknown(kwargs: dict[str, Any], shape: Shape) -> str | None:
    """The argument that there is no parameter for, with the one that was probably meant."""
    name = next((name for name in kwargs if name not in shape.names), None)
    if name is None:
        return None
    near = get_close_matches(name, shape.names, 1)
    return f"there is no parameter {name}" + (f": did you mean {near[0]}?" if near else "")


def _is_writable(value: Any) -> bool:
    try:
        encoder.encode(value)
    except Exception:  # noqa: BLE001  # as in encode
        return False
    return True
