"""The pages for users are run as they stand, and say what they print."""

import ast
import asyncio
import contextlib
import inspect
import io
import re
import sys
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["reference/arguments.md", "explanation/arguments-over-deploys.md"]
EXAMPLE = re.compile(r"```python\n(.*?)```\n+```text\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_every_example_prints_what_the_page_says(
    page: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    text = (DOCS / page).read_text("utf-8")
    examples = EXAMPLE.findall(text)
    assert len(examples) == text.count("```python")
    module = ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", module)
    for source, expected in examples:
        assert run(source, module) == expected


def run(source: str, module: ModuleType) -> str:
    code = compile(source, module.__name__, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    assert isinstance(code, CodeType)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        pending = FunctionType(code, vars(module))()
        if inspect.iscoroutine(pending):
            asyncio.run(pending)
    return printed.getvalue()
