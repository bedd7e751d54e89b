"""What several statements share is one file that each of them names; a wrong name or word fails."""

import re
from importlib.resources.abc import Traversable
from pathlib import Path

import pytest

from holdfast.postgres.schema import Schema
from holdfast.storage.runs import Settled
from holdfast.storage.statements import FOLDER, PART, PARTS, statement, with_parts
from storage.every_statement import KNOWN, NAMES

SOURCES = {path.name: path.read_text("utf-8") for folder in (FOLDER, PARTS) for path in folder.iterdir()}
# Literals that the planner must know: Python fills them in, one variant of the statement for each.
LITERALS = {"segment", "segments", "taken", "place", "table", "home", "key"}
# What Python fills into statements that complete runs: a part, or a failure in place of an answer.
VARIANTS = {"otherwise", "refused"}


def parts() -> list[Traversable]:
    return sorted(PARTS.iterdir(), key=lambda path: path.name)


def test_every_part_is_named_by_a_statement_or_by_another_part() -> None:
    code = [path.read_text("utf-8") for path in Path(str(FOLDER)).parent.glob("*.py")]
    named = {match["name"] for source in [*SOURCES.values(), *code] for match in PART.finditer(source)}
    assert {path.name.removesuffix(".sql") for path in parts()} == named


@pytest.mark.parametrize("path", parts(), ids=lambda path: path.name)
def test_a_part_opens_with_its_contract(path: Traversable) -> None:
    opening = re.match(r"(?:-- .*\n)+", path.read_text("utf-8"))
    assert opening, "no contract"
    assert opening[0].strip().endswith((".", ":"))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_to_be_filled_in(name: str) -> None:
    """A brace that no mechanism knows, such as `{prat counted}`, would reach the server as it is. One that
    follows a quote is an array or a path of JSON.
    """
    text = KNOWN[name].text(Schema("jobs"))
    assert set(re.findall(r"(?<!')\{([A-Za-z_][^}]*)\}", text)) <= LITERALS | VARIANTS


@pytest.mark.parametrize("source", ["{part conted runs=ended outcome=outcome}", "select 1 {part }"])
def test_a_part_that_is_not_there_is_not_filled_in(source: str) -> None:
    try:
        text = with_parts(source)
    except FileNotFoundError:
        return
    assert "{part" in text, "left for the test above to find"


@pytest.mark.parametrize(
    "words", ["runs=ended", "runs=ended outcome=outcome job=a.job", "run=ended outcome=outcome"]
)
def test_a_part_is_given_exactly_the_words_that_it_asks_for(words: str) -> None:
    with pytest.raises(
        ValueError, match=r"sql_parts/counted\.sql takes \['outcome', 'runs'\], and was given"
    ):
        with_parts(f"{{part counted {words}}}")


def test_a_part_of_a_part_is_filled_in_with_its_words() -> None:
    text = with_parts("{part ended_without_run outcome='expired' keep=%(keep)s::interval}")
    assert "from stopped f" in text, "of freed_and_forgotten"
    assert "jsonb_exists(w.hears -> 'expired', k.kind)" in text
    assert "coalesce(keep, %(keep)s::interval)" in text
    assert "--" not in text, "a contract in the middle of a line would swallow the rest of it"


def test_a_part_that_is_left_out_must_be_there() -> None:
    with pytest.raises(ValueError, match="there is no part notised to leave out"):
        statement("settle", Settled, without=("notised",))


def test_a_statement_can_be_read_without_a_part() -> None:
    bare = statement("settle", Settled, without=("noticed",))
    assert "noticed as (" in KNOWN["settle"].source
    assert "noticed as (" not in bare.source
    assert bare.source.count("counted as (") == 1
