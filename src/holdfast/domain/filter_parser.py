r"""Reads the text of a filter: `state:failed,expired kind:pay attempt:>3 error:"card declined" args.id:42`.

Terms are separated by spaces, and all of them must match. A value is a bare word or is in double quotes, in
which `\"` and `\\` stand for a quote and a backslash. Several values of one word are separated by commas.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from holdfast.domain.did_you_mean import did_you_mean
from holdfast.domain.duration import duration
from holdfast.domain.job_filter import (
    COMPARISONS,
    FILTER_STATES,
    ArgumentMatch,
    Comparison,
    FilterState,
    JobFilter,
    NumberBound,
    TimeBound,
)
from holdfast.errors import InvalidFilter, InvalidInput

T = TypeVar("T")

LONGEST_TEXT = 10_000
_LARGEST = 2**63 - 1
_WORD = re.compile(r"[^\s:\"]+")
_BARE = re.compile(r"[^\s,\"]+")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_FOLLOWING = re.compile(r"\s([^\s:\"]+):(?=\S)")
_COMPARED = re.compile(r"(<=|>=|<|>|=)?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Value:
    text: str
    is_quoted: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Term:
    word: str
    start: int
    values: tuple[_Value, ...]


def parse_filter(text: str) -> JobFilter:
    """The filter that a text means; an empty text means every job. Raises InvalidFilter, which shows where
    the text is wrong and what could stand there.
    """
    if not isinstance(text, str):
        raise InvalidInput(f'a filter is {text!r}: give its text, such as "state:failed kind:pay"')
    if len(text) > LONGEST_TEXT:
        raise InvalidInput(f"a filter has {len(text):,} characters: give at most {LONGEST_TEXT:,}")
    found: dict[str, list[Any]] = {}
    for term in _terms(text):
        name, read = _field(text, term)
        known = found.setdefault(name, [])
        if known and name in _ONCE:
            raise _wrong(text, term, f'"{term.word}" stands here a second time', f"give {term.word}:one,two")
        known.extend(read(text, term))
    return JobFilter(**{name: tuple(dict.fromkeys(values)) for name, values in found.items()})


def holds_term(value: str) -> bool:
    """Whether a term follows a space in there: `bank refused state:failed` is not one value."""
    return any(_is_word(found[1]) for found in _FOLLOWING.finditer(value))


def _is_word(word: str) -> bool:
    return word in _FIELDS or word.startswith("args.")


def _terms(text: str) -> Iterator[_Term]:
    at = 0
    before: _Term | None = None
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return
        start, word = at, _WORD.match(text, at)
        if word is None or text[word.end() : word.end() + 1] != ":":
            raise _not_a_term(text, start, start + 1 if word is None else word.end(), before)
        values, at = _values(text, word.end() + 1, word[0])
        before = _Term(word[0], start, values)
        yield before


def _values(text: str, at: int, word: str) -> tuple[tuple[_Value, ...], int]:
    """The values behind a word's colon, up to the next space."""
    values = []
    while True:
        value, at = _value(text, at, word)
        values.append(value)
        if text[at : at + 1] != ",":
            break
        at += 1
    if at < len(text) and not text[at].isspace():
        raise InvalidFilter(text, at, at + 1, "a space must separate two terms", "put a space here")
    return tuple(values), at


def _value(text: str, at: int, word: str) -> tuple[_Value, int]:
    compared = _COMPARED.match(text, at) if word in _BOUNDS else None
    sign = (compared[1] or "") if compared else ""
    behind = at + len(sign)
    if quoted := _QUOTED.match(text, behind):
        inside = re.sub(r"\\(.)", r"\1", quoted[1])
        return _Value(sign + inside, is_quoted=True, start=at, end=quoted.end()), quoted.end()
    if text[behind : behind + 1] == '"':
        raise InvalidFilter(text, behind, len(text), "this quoted text has no end", 'end it with "')
    if bare := _BARE.match(text, behind):
        return _Value(sign + bare[0], is_quoted=False, start=at, end=bare.end()), bare.end()
    raise InvalidFilter(
        text, at, at + 1, f'"{word}:" has no value', _EXAMPLES.get(word, "args.customer.id:42")
    )


def _field(text: str, term: _Term) -> tuple[str, Callable[[str, _Term], list[Any]]]:
    if term.word == "args" or term.word.startswith("args."):
        return "arguments", _arguments
    known = _FIELDS.get(term.word)
    if known is None:
        meant = did_you_mean(term.word.lower(), _EXAMPLES)
        raise InvalidFilter(
            text,
            term.start,
            term.start + len(term.word),
            f'a filter has no word "{term.word}"{meant}',
            "there are " + ", ".join([*_EXAMPLES, "args.PATH"]),
        )
    return known


def _texts(_: str, term: _Term) -> list[str]:
    return [value.text for value in term.values]


def _one_text(text: str, term: _Term) -> list[str]:
    return [_only(text, term).text]


def _states(text: str, term: _Term) -> list[FilterState]:
    for value in term.values:
        if value.text not in FILTER_STATES:
            meant = did_you_mean(value.text.lower(), FILTER_STATES)
            told = f'no job is in a state "{value.text}"{meant}'
            raise InvalidFilter(text, value.start, value.end, told, "there are " + ", ".join(FILTER_STATES))
    return [cast("FilterState", value.text) for value in term.values]


def _numbers(text: str, term: _Term) -> list[int]:
    return [_number(text, term, value, value.text) for value in term.values]


def _number_bounds(text: str, term: _Term) -> list[NumberBound]:
    value = _only(text, term)
    comparison, rest = _compared(value.text)
    return [NumberBound(comparison or "=", _number(text, term, value, rest))]


def _time_bounds(text: str, term: _Term) -> list[TimeBound]:
    value = _only(text, term)
    comparison, rest = _compared(value.text)
    if comparison in (None, "="):
        told = f'"{term.word}" takes < or >, with an age or a time'
        raise InvalidFilter(text, value.start, value.end, told, _EXAMPLES[term.word])
    assert comparison is not None  # noqa: S101  # checked above, for mypy
    moment = _moment(rest)
    if moment is not None:
        return [TimeBound(comparison, time=moment)]
    try:
        return [TimeBound(comparison, age=duration(rest))]
    except InvalidInput:
        told = f'"{rest}" is neither an age such as 1h or 30m, nor a time such as 2026-01-31T09:00'
        raise InvalidFilter(text, value.start, value.end, told, _EXAMPLES[term.word]) from None


def _arguments(text: str, term: _Term) -> list[ArgumentMatch]:
    value = _only(text, term)
    path = tuple(term.word.split(".")[1:])
    if not path or not all(path):
        told = f'"{term.word}" does not say which argument'
        raise InvalidFilter(text, term.start, value.end, told, "write args.customer.id:42")
    return [ArgumentMatch(path, json.dumps(value.text) if value.is_quoted else _json(value.text))]


_FIELDS: dict[str, tuple[str, Callable[[str, _Term], list[Any]]]] = {
    "id": ("ids", _numbers),
    "state": ("states", _states),
    "kind": ("kinds", _texts),
    "queue": ("queues", _texts),
    "tag": ("tags", _texts),
    "worker": ("workers", _numbers),
    "priority": ("priority", _number_bounds),
    "attempt": ("attempt", _number_bounds),
    "created": ("created", _time_bounds),
    "finished": ("finished", _time_bounds),
    "schedule": ("schedules", _texts),
    "flow": ("flows", _numbers),
    "group": ("groups", _numbers),
    "failure": ("failures", _texts),
    "error": ("errors", _one_text),
}
_ONCE = frozenset({"ids", "states", "kinds", "queues", "workers", "schedules", "flows", "groups", "failures"})
_BOUNDS = frozenset({"priority", "attempt", "created", "finished"})
_EXAMPLES: dict[str, str] = {
    "id": "write id:42 or id:42,43",
    "state": "write state:failed or state:failed,expired",
    "kind": "write kind:send_welcome",
    "queue": "write queue:mail",
    "tag": "write tag:vip",
    "worker": "write worker:7",
    "priority": "write priority:0 or priority:<3",
    "attempt": "write attempt:>3",
    "error": 'write error:"card declined"',
    "created": "write created:<1h (less than an hour ago) or created:>2026-01-31",
    "finished": "write finished:<2h (less than two hours ago) or finished:>2026-01-31",
    "schedule": "write schedule:nightly",
    "flow": "write flow:42",
    "group": "write group:42",
    "failure": "write failure:FINGERPRINT, as `holdfast failures list` shows it",
}


def _only(text: str, term: _Term) -> _Value:
    if len(term.values) > 1:
        extra = term.values[1]
        raise InvalidFilter(
            text,
            extra.start,
            extra.end,
            f'"{term.word}" takes one value',
            f'give "{term.word}:" for each of them, or put a text with a comma in quotes',
        )
    return term.values[0]


def _compared(text: str) -> tuple[Comparison | None, str]:
    sign = next((each for each in sorted(COMPARISONS, key=len, reverse=True) if text.startswith(each)), None)
    return sign, text.removeprefix(sign or "")


def _number(text: str, term: _Term, value: _Value, digits: str) -> int:
    if not (digits.isascii() and digits.isdigit() and int(digits) <= _LARGEST):
        told = f'"{digits}" is not a whole number'
        raise InvalidFilter(text, value.start, value.end, told, _EXAMPLES[term.word])
    return int(digits)


def _moment(text: str) -> datetime | None:
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read


def _json(text: str) -> str:
    """A bare word as JSON: 42, true and null as they are, all else as a text."""
    try:
        return json.dumps(json.loads(text, parse_constant=_refused))
    except ValueError:
        return json.dumps(text)


def _refused(name: str) -> None:
    raise ValueError(name)


def _not_a_term(text: str, start: int, end: int, before: _Term | None) -> InvalidFilter:
    said = text[start:end]
    if said == "AND":
        return InvalidFilter(
            text, start, end, f'"{said}" is not needed', "leave it out: all terms must match"
        )
    if said.isascii() and said.isdigit():
        return InvalidFilter(text, start, end, f'"{said}" stands alone', f"write id:{said}")
    words = ", ".join([*_EXAMPLES, "args.PATH"])
    told = f'"{said}" is not WORD:VALUE'
    if before is not None and not before.values[-1].is_quoted and '"' not in text[start:]:
        # All up to the next term may be meant as one value.
        terms = (found.start() for found in _FOLLOWING.finditer(text, start) if _is_word(found[1]))
        meant = text[before.values[-1].start : next(terms, len(text))].rstrip()
        told += f'; a value that holds a space needs quotes: {before.word}:"{meant}"'
    return InvalidFilter(text, start, end, told, f"the words are {words}")


def _wrong(text: str, term: _Term, told: str, advice: str) -> InvalidFilter:
    return InvalidFilter(text, term.start, term.values[-1].end, told, advice)
