"""A number for the code of a flow: the same code must take the same path, other code need not."""

import hashlib
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any


def fingerprint(function: Callable[..., Any]) -> int:
    """Of the function, of all functions and methods of its module, and of what it names from its package."""
    digest = hashlib.sha256(sys.version.encode() + function.__qualname__.encode())
    for code in sorted(
        _codes(function), key=lambda code: (code.co_filename, code.co_firstlineno, code.co_name)
    ):
        digest.update(code.co_name.encode() + code.co_code)
        digest.update("".join(map(_shown, code.co_consts)).encode())
        digest.update(repr(code.co_names).encode())
    return int.from_bytes(digest.digest()[:8], "big", signed=True)


def _codes(function: Callable[..., Any]) -> set[CodeType]:
    found: set[CodeType] = set()
    package = function.__module__.partition(".")[0]
    left: list[Any] = [function, *_of_module(function)]
    while left:
        each = left.pop()
        code = each.__code__ if isinstance(each, FunctionType) else each
        if not isinstance(code, CodeType) or code in found:
            continue
        found.add(code)
        left += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        if isinstance(each, FunctionType):
            left += [named for named in _named_by(each) if named.__module__.partition(".")[0] == package]
    return found


def _named_by(function: FunctionType) -> Iterator[FunctionType]:
    named = [function.__globals__.get(name) for name in function.__code__.co_names]
    yield from (each for each in named if isinstance(each, FunctionType))
    yield from (cell.cell_contents for cell in function.__closure__ or () if _is_function(cell))


def _of_module(function: Callable[..., Any]) -> Iterator[FunctionType]:
    module = sys.modules.get(function.__module__)
    for value in list(vars(module).values()) if module else ():
        if getattr(value, "__module__", None) != function.__module__:
            continue
        if isinstance(value, FunctionType):
            yield value
        elif isinstance(value, type):
            yield from (member for member in vars(value).values() if isinstance(member, FunctionType))


def _is_function(cell: Any) -> bool:
    try:
        return isinstance(cell.cell_contents, FunctionType)
    except ValueError:  # not filled yet
        return False


def _shown(constant: object) -> str:
    """The same in every process: a set is shown in another order in each, and code by its address."""
    if isinstance(constant, frozenset):
        return repr(sorted(map(repr, constant)))
    return "" if isinstance(constant, CodeType) else repr(constant)
