"""The page of origins and the tests name the same behaviours: none without a test, no mark without a line."""

import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "reference" / "origins.md"


def on_the_page() -> list[str]:
    return re.findall(r"^- (S\d\.\d+) \S", PAGE.read_text("utf-8"), re.MULTILINE)


def marked() -> Iterator[str]:
    for path in TESTS.rglob("*.py"):
        for call in re.findall(r"mark\.requirement\(([^)]*)\)", path.read_text("utf-8")):
            yield from re.findall(r'"(S\d\.\d+)"', call)


def test_every_behaviour_on_the_page_has_a_test() -> None:
    assert sorted(set(on_the_page()) - set(marked())) == []


def test_every_mark_has_a_line_on_the_page() -> None:
    assert sorted(set(marked()) - set(on_the_page())) == []


def test_no_number_stands_on_the_page_twice() -> None:
    page = on_the_page()
    assert len(page) == len(set(page))
