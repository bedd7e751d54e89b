"""What Holdfast knows about asyncio that Python does not promise: docs/explanation/connection-pool.md."""

import ast
import asyncio
import re
from collections import deque
from pathlib import Path

import holdfast

ROOT = Path(holdfast.__file__).parent
PAGE = ROOT.parents[1] / "docs" / "explanation" / "connection-pool.md"
# These have an underscore, and Python's documentation describes them.
DOCUMENTED = {"_getframe", "_current_frames", "_xoptions", "_exit"}


def test_a_runner_counts_interrupts() -> None:
    with asyncio.Runner() as runner:
        count = getattr(runner, "_interrupt_count", None)
    assert count == 0, "stop_signals.interrupts needs another way to know how often Ctrl-C came"


async def test_an_event_loop_keeps_what_is_ready_to_run_in_a_deque() -> None:
    loop = asyncio.SelectorEventLoop()
    try:
        called: list[int] = []
        loop.call_soon(called.append, 1)
        ready = getattr(loop, "_ready", None)
        assert isinstance(ready, deque), "forked_copy needs another way to drop what is ready"
        assert len(ready) == 1
    finally:
        loop.close()


async def test_a_running_loop_is_found_without_an_exception() -> None:
    assert asyncio._get_running_loop() is asyncio.get_running_loop()
    assert await asyncio.to_thread(asyncio._get_running_loop) is None


def test_no_other_name_of_python_is_used_that_it_does_not_promise() -> None:
    used = {name for path in ROOT.rglob("*.py") for name in _of_modules(path)}
    assert used - DOCUMENTED == {"_get_running_loop"}
    # These two are asked for by their text, as another event loop or another Python may lack them.
    texts = {name for path in ROOT.rglob("*.py") for name in _asked_for(path)}
    assert texts & {*dir(asyncio.Runner), *vars(asyncio.Runner()), "_ready"} == {"_interrupt_count", "_ready"}


def test_the_page_names_each() -> None:
    named = set(re.findall(r"\b_[a-z_]+", PAGE.read_text("utf-8").partition("## And about Python's")[2]))
    assert {"_get_running_loop", "_interrupt_count", "_ready", *DOCUMENTED} <= named


def _of_modules(path: Path) -> set[str]:
    return {
        node.attr
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and re.match(r"_[a-z]", node.attr)
        and isinstance(node.value, ast.Name)
        and node.value.id in {"asyncio", "sys", "threading", "signal", "os", "logging"}
    }


def _asked_for(path: Path) -> set[str]:
    """`_ready` of `getattr(loop, "_ready", [])`."""
    return {
        str(node.args[1].value)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and isinstance(node.args[1], ast.Constant)
        and re.match(r"_[a-z]", str(node.args[1].value))
    }
