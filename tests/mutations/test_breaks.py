"""Every break still fits the source, and names tests that exist; `make mutate` shows that they notice."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from mutations.breaks import BREAKS, Break
from mutations.mutate import ROOT, applied

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize("each", BREAKS, ids=lambda each: each.name)
def test_a_break_fits_and_its_tests_exist(each: Break) -> None:
    path, text = applied(ROOT, each)
    assert text != path.read_text("utf-8")
    if path.suffix == ".py":
        compile(text, str(path), "exec")
    assert each.tests
    for test in each.tests:
        name, _, function = test.partition("::")
        assert (TESTS / name).is_file(), name
        assert not function or function in functions(TESTS / name), test


def test_no_two_breaks_have_one_name() -> None:
    assert [name for name, count in Counter(each.name for each in BREAKS).items() if count > 1] == []


def test_a_break_that_does_not_fit_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="stands 0 times"):
        applied(ROOT, BREAKS[0]._replace(old="a line that is nowhere"))


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
