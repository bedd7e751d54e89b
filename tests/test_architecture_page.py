"""The maps of the source, docs/explanation/architecture.md and CONTRIBUTING.md, name only what exists."""

import ast
import re
from pathlib import Path

import pytest

from support.doc_examples import DOCS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "holdfast"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
PAGE = (DOCS / "explanation" / "architecture.md").read_text("utf-8")
WALKS = [
    (file, name.strip("` "))
    for file, names in re.findall(r"^\| .* \| `([\w/]+\.py)` \| (`.*`) \|$", PAGE, re.MULTILINE)
    for name in names.split(",")
]
_QUESTIONS = PAGE.partition("## Questions and where they are answered")[2].partition("\n## ")[0]
ANSWERS = re.findall(
    r"^\| ([^|]+\?) \| (?:`([\w/]+\.py)`)? ?\| (?:`([\w.]+)`)? ?\| (.+) \|$", _QUESTIONS, re.MULTILINE
)


def defined_in(file: str) -> set[str]:
    names: set[str] = set()
    for node in ast.parse((SOURCE / file).read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ClassDef):
            methods = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            names |= {f"{node.name}.{method.name}" for method in methods}
    return names


@pytest.mark.parametrize("file", sorted(set(re.findall(r"`([\w/]+\.(?:py|sql))`", PAGE))))
def test_every_file_that_it_names_exists(file: str) -> None:
    assert ((ROOT if file.startswith("tests/") else SOURCE) / file).is_file()


@pytest.mark.parametrize(("file", "name"), WALKS)
def test_every_function_of_a_walk_is_in_its_file(file: str, name: str) -> None:
    assert name in defined_in(file)


def test_every_question_has_an_answer() -> None:
    assert len(ANSWERS) == _QUESTIONS.count("\n| ") - 1, "a row that cannot be read"
    assert len(ANSWERS) >= 20


@pytest.mark.parametrize(("question", "file", "name", "answer"), ANSWERS)
def test_an_answer_names_a_file_and_what_is_in_it(question: str, file: str, name: str, answer: str) -> None:
    assert answer
    if file:
        assert name in defined_in(file)
    else:
        assert "CONTRIBUTING.md#" in answer


def test_there_are_three_walks_and_thirty_words() -> None:
    assert len(WALKS) >= 30
    assert len(re.findall(r"^\| \*\*", PAGE, re.MULTILINE)) >= 30


def test_the_picture_names_every_package() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    picture = PAGE.split("```")[1]
    assert {name for name in packages if name not in picture} == set()


def test_contributing_names_every_package_and_every_folder_of_tests() -> None:
    packages = {f"`{path.parent.name}/`" for path in SOURCE.glob("*/__init__.py")}
    folders = {f"`{path.parent.name}/`" for path in Path(__file__).parent.glob("*/__init__.py")}
    assert {name for name in packages | folders if name not in CONTRIBUTING} == set()


@pytest.mark.parametrize("path", sorted(set(re.findall(r"`([\w/]+\.(?:py|sql))`", CONTRIBUTING))))
def test_every_file_that_contributing_names_exists(path: str) -> None:
    if path.startswith(("tests/", "docs/", "benchmarks/")):
        assert (ROOT / path).is_file()
    elif "NAME" not in path and "NNNN" not in path:
        assert (SOURCE / path).is_file()
