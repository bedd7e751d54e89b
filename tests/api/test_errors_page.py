"""The reference of errors and holdfast.errors name the same classes, with the same parents and attributes."""

import ast
import inspect
import re

import pytest

from holdfast import errors
from support.doc_examples import DOCS, run_page

PAGE = "reference/errors.md"
ROW = re.compile(r"^\| `(\w+)`(?: \(([^)]*)\))? \| (.*?) \| (.*?) \| ?(.*?) ?\|$", re.MULTILINE)
CLASSES = {
    name: thing
    for name, thing in vars(errors).items()
    if isinstance(thing, type) and thing.__module__ == errors.__name__
}
ROWS = {name: rest for name, *rest in ROW.findall((DOCS / PAGE).read_text("utf-8"))}


def attributes(kind: type) -> set[str]:
    """Those that the class itself sets: in its `__init__`, or for the whole class."""
    [body] = ast.parse(inspect.getsource(kind)).body
    found = set()
    for node in ast.walk(body):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return found | {name for name in vars(kind) if not name.startswith("_")}


def test_the_page_and_the_module_name_the_same_errors() -> None:
    assert len(ROWS) == len(ROW.findall((DOCS / PAGE).read_text("utf-8"))), "one of them stands there twice"
    assert set(ROWS) == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_an_error_is_shown_with_its_parents_and_attributes(name: str) -> None:
    parents, when, advice, shown = ROWS[name]
    kind = CLASSES[name]
    bases = [base.__name__ for base in kind.__bases__ if base is not Exception]
    assert re.findall(r"`(\w+)`", parents) == bases
    assert when
    assert advice
    assert set(re.findall(r"`(\w+)`", shown)) == attributes(kind)


def test_the_tree_in_the_module_has_every_error_below_its_parent() -> None:
    above: list[str] = []
    parents: dict[str, str | None] = {}
    _, _, tree = (errors.__doc__ or "").partition("\n\n")
    for indent, name in re.findall(r"^([│├└─ ]*)([A-Z]\w+)(?: |$)", tree, re.MULTILINE):
        depth = len(indent) // 4
        del above[depth:]
        parents[name] = above[-1] if above else None
        above.append(name)
    bases = {name: kind.__bases__[0].__name__ for name, kind in CLASSES.items()}
    assert parents == {name: base if base in CLASSES else None for name, base in bases.items()}


def test_the_example_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page(PAGE, monkeypatch)


def test_the_module_has_the_order_of_its_tree() -> None:
    _, _, tree = (errors.__doc__ or "").partition("\n\n")
    names = re.findall(r"^[│├└─ ]*([A-Z]\w+)(?: |$)", tree, re.MULTILINE)
    assert names == [*CLASSES]
