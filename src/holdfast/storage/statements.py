"""The `.sql` files beside this module, each read once and known by its name.

What several statements share stands once, in `sql_parts/`. A statement names it where it belongs:
`{part counted runs=ended outcome=outcome}` becomes the text of `sql_parts/counted.sql` without its contract,
with `ended` in place of `{runs}` and `outcome` in place of `{outcome}`. The words given are exactly those
that the part asks for; another word, or a part that is not there, fails when the statement is read.
`{final_outcomes}` and `{continuing_outcomes}` become the words of `domain/states.py`, as literals.
"""

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar, get_args

from holdfast.domain.states import ContinuingOutcome, FinalState
from holdfast.postgres.statement import StatementFile

T = TypeVar("T")

FOLDER = files("holdfast.storage") / "sql"
PARTS = files("holdfast.storage") / "sql_parts"
KNOWN: dict[str, StatementFile[Any]] = {}
PART = re.compile(r"\{part (?P<name>\w+)(?P<words>(?: \w+=[^\s}]+)*)\}")

_CONTRACT = re.compile(r"\A(?:--.*\n)+")
_WORD = re.compile(r"\{([a-z_]+)\}")
_EVERYWHERE = {
    "final_outcomes": ", ".join(f"'{outcome}'" for outcome in get_args(FinalState)),
    "continuing_outcomes": ", ".join(f"'{outcome}'" for outcome in get_args(ContinuingOutcome)),
}
_FILLED_LATER = {"schema", "schema_name", *_EVERYWHERE}


def statement(
    name: str, decode: Callable[..., T], *, is_repeatable: bool = False, without: Collection[str] = ()
) -> StatementFile[T]:
    """Read a statement. `is_repeatable`: sent again after a lost reply, it has the effect of once.

    `without`: parts that this variant of the statement leaves out.
    """
    return _known(StatementFile.read(FOLDER, name, decode, is_repeatable=is_repeatable), without)


def bunched(
    name: str,
    decode: Callable[..., list[T]],
    *,
    is_repeatable: bool = False,
    without: Collection[str] = (),
) -> StatementFile[T]:
    """The same for one whose rows hold several results each: what comes in thousands comes in arrays."""
    return _known(StatementFile.read_bunched(FOLDER, name, decode, is_repeatable=is_repeatable), without)


def with_parts(source: str, *, without: Collection[str] = ()) -> str:
    """The text with its parts, and with theirs. ValueError if none of them names one to be left out."""
    left_out: set[str] = set()
    text = _with_parts(source, without, left_out)
    if missing := set(without) - left_out:
        raise ValueError(f"there is no part {', '.join(sorted(missing))} to leave out")
    return text


def _with_parts(source: str, without: Collection[str], left_out: set[str]) -> str:
    def text_of(match: re.Match[str]) -> str:
        if match["name"] in without:
            left_out.add(match["name"])
            return ""
        words = dict(word.split("=", 1) for word in match["words"].split())
        return _with_parts(_part(match["name"], words), without, left_out)

    return PART.sub(text_of, source)


def _known(read: StatementFile[T], without: Collection[str]) -> StatementFile[T]:
    whole = replace(read, source=with_parts(read.source, without=without)).filled(**_EVERYWHERE)
    if not without:
        KNOWN[read.name] = whole
    return whole


def _part(name: str, words: dict[str, str]) -> str:
    body = _body(name)
    asked_for = set(_WORD.findall(body)) - _FILLED_LATER
    if asked_for != set(words):
        raise ValueError(f"sql_parts/{name}.sql takes {sorted(asked_for)}, and was given {sorted(words)}")
    for word, text in words.items():
        body = body.replace(f"{{{word}}}", text)
    return body


@cache
def _body(name: str) -> str:
    return _CONTRACT.sub("", (PARTS / f"{name}.sql").read_text("utf-8")).strip()
