"""A function's parameters at decoration, and their types later, when all that they name is defined."""

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from inspect import Parameter
from types import SimpleNamespace
from typing import Any

from holdfast.errors import InvalidInput

Function = Callable[..., Any]

_REFUSED: dict[Any, str] = {
    Parameter.POSITIONAL_ONLY: 'leave out the "/"',
    Parameter.VAR_POSITIONAL: "take a list",
    Parameter.VAR_KEYWORD: "take a dict, or name the parameters",
}


def name_of(function: Function) -> str:
    plain = _innermost(function)
    return str(getattr(plain, "__name__", type(plain).__name__))


def parameters_of(function: Function) -> dict[str, Parameter]:
    """Names, kinds and defaults, all that an argument is stored by; the annotations are not read yet."""
    parameters = dict(_signature(function).parameters)
    for name, parameter in parameters.items():
        if advice := _REFUSED.get(parameter.kind):
            raise InvalidInput(
                f"{name_of(function)}({parameter.replace(annotation=Parameter.empty)}): arguments are stored "
                f"by parameter name, so {name} cannot be: {advice}"
            )
    return parameters


def hints_of(function: Function, *, context: type, localns: Mapping[str, Any] | None) -> dict[str, Any]:
    """The type of each parameter and of the result ("return"); those without an annotation are missing."""
    signature = _signature(function)
    annotations = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    annotations["return"] = signature.return_annotation
    names = {context.__name__: context} | _namespace(function) | dict(localns or {})
    return {
        name: _evaluated(function, name, annotation, names)
        for name, annotation in annotations.items()
        if annotation is not Parameter.empty
    }


def _evaluated(function: Function, name: str, annotation: Any, names: dict[str, Any]) -> Any:
    holder = SimpleNamespace(__annotations__={name: annotation})
    try:
        return typing.get_type_hints(holder, globalns=names, include_extras=True)[name]
    except Exception as error:  # an annotation is code of the user's, and may raise anything
        problem = f"{name_of(function)}({name}): its type {annotation!r} cannot be read ({error}): "
        raise InvalidInput(
            problem + "define or import what it names at the top of its module, not only under TYPE_CHECKING"
        ) from error


def _signature(function: Function) -> inspect.Signature:
    try:
        if sys.version_info >= (3, 14):
            from annotationlib import Format

            return inspect.signature(function, annotation_format=Format.FORWARDREF)
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{function!r} cannot be a job, as its parameters are unknown: {error}") from error


def _namespace(function: Function) -> dict[str, Any]:
    """What the function's annotations may name: its module's globals, the classes it is in, its closure."""
    plain = _innermost(function)
    if not hasattr(plain, "__globals__"):
        plain = getattr(type(plain), "__call__", plain)  # noqa: B004  # an object that can be called
    names = dict(getattr(plain, "__globals__", {}))
    owner: Any = SimpleNamespace(**names)
    for step in getattr(plain, "__qualname__", "").split(".")[:-1]:
        owner = getattr(owner, step, None)
        names |= vars(owner) if isinstance(owner, type) else {}
    free = plain.__code__.co_freevars if hasattr(plain, "__code__") else ()
    cells = zip(free, getattr(plain, "__closure__", None) or (), strict=False)
    return names | {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # asked for its error
    except ValueError:
        return False
    return True


def _innermost(function: Function) -> Any:
    """Behind partials and decorators, as far as `inspect.signature` looks behind them."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__") and not hasattr(function, "__signature__"):
            function = function.__wrapped__
        else:
            return function
