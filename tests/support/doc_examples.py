"""Pages for users, run as they stand: the Python of a page is one program, read from top to bottom. A
block of text behind a block of Python is what that prints; without one it prints nothing.
"""

import ast
import asyncio
import builtins
import contextlib
import inspect
import io
import re
import sys
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

from holdfast import App

DOCS = Path(__file__).parents[2] / "docs"

_EXAMPLE = re.compile(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.DOTALL)


def run_page(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the module `shop`, whose apps are closed when all of it was run."""
    text = (DOCS / page).read_text("utf-8")
    examples = _EXAMPLE.findall(text)
    assert len(examples) == text.count("```python") > 0
    module = ModuleType("shop")
    vars(module)["__builtins__"] = builtins  # as in every module: formatting a date asks for it
    monkeypatch.setitem(sys.modules, "shop", module)
    with asyncio.Runner() as runner:
        try:
            for source, expected in examples:
                assert _printed(source, module, runner) == expected, source
        finally:
            for app in [value for value in vars(module).values() if isinstance(value, App)]:
                runner.run(app.close())


def _printed(source: str, module: ModuleType, runner: asyncio.Runner) -> str:
    code = compile(source, module.__name__, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    assert isinstance(code, CodeType)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        pending = FunctionType(code, vars(module))()
        if inspect.iscoroutine(pending):
            runner.run(pending)
    return printed.getvalue()
