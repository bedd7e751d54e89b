"""The signature of a kind whose handler takes a list: a job's arguments are the fields of one item, its
result is one of those that the handler returns.
"""

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from inspect import Parameter
from types import FunctionType, NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, is_typeddict

from holdfast.codec.complaints import quoted
from holdfast.codec.hints import Function, hints_of, name_of, parameters_of
from holdfast.codec.shape import Shape
from holdfast.codec.signature import Signature
from holdfast.domain.job import ARGS_LIMIT
from holdfast.errors import InvalidArguments, InvalidInput, Undecodable

A = TypeVar("A")

_LISTS = (list, Sequence, Collection, Iterable)


class BatchSignature(Signature, Generic[A]):
    """Made at decoration, resolved when the app starts, like every signature. `context` is what the handler
    may take as its first parameter.
    """

    __slots__ = ("_batch_context", "_handler", "_of", "_takes_batch_context", "parameter")

    def __init__(
        self,
        handler: Function,
        of: Callable[..., A],
        *,
        context: type,
        secret_names: tuple[str, ...] = (),
    ) -> None:
        name = name_of(handler)
        maker = _maker(name, of)
        super().__init__(maker, parameters_of(maker), context, secret_names)
        taken = list(parameters_of(handler))
        if len(taken) not in (1, 2):
            raise InvalidInput(
                f"{name}({', '.join(taken)}): the handler of a batch takes one list, after the "
                f"{context.__name__} if it wants that"
            )
        self.parameter = taken[-1]
        self._handler = handler
        self._of = of
        self._batch_context = context
        self._takes_batch_context = len(taken) == 2  # noqa: PLR2004  # the context and the list

    @property
    def takes_context(self) -> bool:
        return self._takes_batch_context

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, limit: int = ARGS_LIMIT) -> str:
        """The arguments as text, once the item itself has taken them."""
        text = super().encode(args, kwargs, limit=limit)
        try:
            self._of(*args, **kwargs)
        except Exception as error:  # the class is the user's, and may check what it likes
            raise InvalidArguments(self.name, None, f"{name_of(self._of)} refuses them: {error}") from error
        return text

    def item(self, text: str) -> A:
        """What the handler's list has for the job with these arguments."""
        given = self.decode(text)
        try:
            return self._of(**given)
        except Exception as error:
            shown = self._shown_text(text)
            raise Undecodable(
                f"{name_of(self._of)} refuses the stored arguments of {self.name}(): {error}. Its definition "
                f"has probably changed between enqueueing and running. Stored: {quoted(shown)}",
                text=shown,
            ) from error

    def _resolved(self, localns: Mapping[str, Any] | None = None) -> Shape:
        if self._shape is None:
            hints = hints_of(self._handler, context=self._batch_context, localns=localns)
            self._check_taken(hints)
            result = _one_of(self.name, hints.get("return", Any))
            signature = inspect.signature(self._function).replace(return_annotation=result)
            vars(self._function)["__signature__"] = signature
        return super()._resolved(localns)

    def _check_taken(self, hints: Mapping[str, Any]) -> None:
        if self._takes_batch_context:
            first = next(iter(parameters_of(self._handler)))
            if hints.get(first) is not self._batch_context:
                raise InvalidInput(
                    f"{self.name}({first}): of the two parameters of a batch's handler the first is "
                    f"annotated {self._batch_context.__name__}"
                )
        wanted = f"annotate it list[{name_of(self._of)}]"
        hint = hints.get(self.parameter)
        if get_origin(hint) not in _LISTS:
            raise InvalidInput(
                f"{self.name}({self.parameter}): the handler of a batch takes a list: {wanted}"
            )
        item = get_args(hint)[0]
        if isinstance(self._of, type) and item not in (self._of, Any):
            raise InvalidInput(
                f"{self.name}({self.parameter}): it takes a list of {getattr(item, '__name__', item)}, and "
                f"its batch is of {name_of(self._of)}: {wanted}"
            )


def _one_of(name: str, hint: Any) -> Any:
    """The type of one job's result, from what the handler returns."""
    if hint is None or hint is NoneType or hint is Any:
        return hint
    if get_origin(hint) in (Union, UnionType):
        some = [part for part in get_args(hint) if part is not NoneType]
        hint = some[0] if len(some) == 1 else hint
    if get_origin(hint) is list:
        return get_args(hint)[0]
    raise InvalidInput(
        f"{name} returns {getattr(hint, '__name__', hint)}: the handler of a batch returns a list with the "
        "result of each job, in the order of the jobs, or None"
    )


def _maker(name: str, of: Callable[..., Any]) -> FunctionType:
    """A function with the item's fields as parameters, at home in the item's module: the codec looks up there
    what annotations name.
    """

    def stand_in() -> None:
        """Never called: read for its signature."""

    home = sys.modules.get(of.__module__)
    made = FunctionType(stand_in.__code__, vars(home) if home else {}, name)
    made.__qualname__, made.__module__ = f"{of.__qualname__}.stand_in", of.__module__
    vars(made)["__signature__"] = inspect.Signature(_fields(name, of))
    return made


def _fields(name: str, of: Callable[..., Any]) -> list[Parameter]:
    if is_typeddict(of):
        required: frozenset[str] = of.__required_keys__  # type: ignore[attr-defined]  # it is one
        return [
            Parameter(
                key,
                Parameter.KEYWORD_ONLY,
                annotation=hint,
                default=Parameter.empty if key in required else None,
            )
            for key, hint in sorted(
                inspect.get_annotations(of).items(), key=lambda one: one[0] not in required
            )
        ]
    try:
        return list(inspect.signature(of).parameters.values())
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{name}: its batch is of {of!r}, whose fields are unknown ({error}): give a class with fields, "
            "such as a dataclass"
        ) from error
