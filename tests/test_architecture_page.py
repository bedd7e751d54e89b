"""docs/explanation/architecture.md names files and functions of the source: all of them exist."""

import ast
import re
from pathlib import Path

import pytest

from holdfast.leader_chores import LEADER_CHORES
from support.doc_examples import DOCS

SOURCE = Path(__file__).parents[1] / "src" / "holdfast"
PAGE = (DOCS / "explanation" / "architecture.md").read_text("utf-8")
WALKS = [
    (file, name.strip("` "))
    for file, names in re.findall(r"^\| .* \| `([\w/]+\.py)` \| (`.*`) \|$", PAGE, re.MULTILINE)
    for name in names.split(",")
]


def defined_in(file: str) -> set[str]:
    names: set[str] = set()
    for node in ast.parse((SOURCE / file).read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


@pytest.mark.parametrize("file", sorted(set(re.findall(r"`([\w/]+\.(?:py|sql))`", PAGE))))
def test_every_file_that_it_names_exists(file: str) -> None:
    assert (SOURCE / file).is_file()


@pytest.mark.parametrize(("file", "name"), WALKS)
def test_every_function_of_a_walk_is_in_its_file(file: str, name: str) -> None:
    assert name in defined_in(file)


def test_there_are_three_walks_and_thirty_words() -> None:
    assert len(WALKS) >= 30
    assert len(re.findall(r"^\| \*\*", PAGE, re.MULTILINE)) >= 30


def test_the_picture_names_every_package() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    picture = PAGE.split("```")[1]
    assert {name for name in packages if name not in picture} == set()


def test_every_chore_is_listed_by_the_file_that_the_page_names() -> None:
    assert len({chore.name for chore in LEADER_CHORES}) == len(LEADER_CHORES)
