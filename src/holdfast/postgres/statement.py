"""One question to Postgres as a value: text, parameters and what a row becomes. Others run it.

The text comes from a `.sql` file that opens with its contract in comments; parameters are written
`%(name)s::type`, so that every driver sends them with the type that is meant.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources.abc import Traversable
from typing import Any, Generic, TypeVar, cast

from holdfast.postgres.schema import Schema

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statement(Generic[T_co]):
    """Text, parameters and a row decoder, called with the columns of a row in order.

    `is_repeatable` is a promise of the statement's author: run twice, it has the effect and the answer
    of running once, so that it may be sent again when a connection was lost before the reply came.
    `schema` is whose tables it names, for the error when they are not there.
    `is_bunched`: a row holds several results in arrays, and `decode` gives a list of them.
    """

    name: str
    text: str
    params: Mapping[str, object]
    decode: Callable[..., T_co]
    is_repeatable: bool = False
    schema: Schema | None = None
    is_bunched: bool = False

    def results(self, rows: Iterable[Iterable[Any]]) -> list[T_co]:
        """From the rows of a reply to what was promised."""
        if self.is_bunched:
            several = cast("Callable[..., list[T_co]]", self.decode)
            return [result for row in rows for result in several(*row)]
        return [self.decode(*row) for row in rows]

    def numbered(self) -> tuple[str, tuple[object, ...]]:
        """The same statement for drivers that take `$1` and a sequence."""
        text, _, names = _numbered(self.text)
        return text, tuple([self.params[name] for name in names])

    def encoded(self) -> tuple[bytes, tuple[object, ...]]:
        """As `numbered`, for psycopg, which knows what it has prepared by it: always the same object."""
        _, encoded, names = _numbered(self.text)
        return encoded, tuple([self.params[name] for name in names])


@cache
def _numbered(text: str) -> tuple[str, bytes, tuple[str, ...]]:
    names: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "%"
        return f"${names.setdefault(name, len(names) + 1)}"

    numbered = _PLACEHOLDER.sub(number, text)
    return numbered, numbered.encode(), tuple(names)


@dataclass(frozen=True, slots=True)
class StatementFile(Generic[T]):
    """A `.sql` file and what its rows become; `with_params` makes the statement that can be run."""

    name: str
    source: str
    decode: Callable[..., T]
    is_repeatable: bool = False
    is_bunched: bool = False
    _texts: dict[Schema, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def read(
        cls, folder: Traversable, name: str, decode: Callable[..., T], *, is_repeatable: bool = False
    ) -> "StatementFile[T]":
        return cls(name, (folder / f"{name}.sql").read_text("utf-8"), decode, is_repeatable)

    @classmethod
    def read_bunched(
        cls, folder: Traversable, name: str, decode: Callable[..., list[T]], *, is_repeatable: bool = False
    ) -> "StatementFile[T]":
        read = cls.read(folder, name, cast("Callable[..., T]", decode), is_repeatable=is_repeatable)
        return replace(read, is_bunched=True)

    def filled(self, **words: str) -> "StatementFile[T]":
        """The same statement with literals in place of `{word}`: where the planner must know a value."""
        source = self.source
        for word, literal in words.items():
            source = source.replace(f"{{{word}}}", literal)
        return StatementFile(self.name, source, self.decode, self.is_repeatable, self.is_bunched)

    @property
    def contract(self) -> str:
        """The comment that the file opens with."""
        opening = re.match(r"(?:--.*\n)+", self.source)
        return re.sub(r"^-- ?", "", opening[0], flags=re.MULTILINE) if opening else ""

    def text(self, schema: Schema) -> str:
        """Without comments, named for the reader of pg_stat_activity, filled in once for each schema."""
        known = self._texts.get(schema)
        if known is None:
            body = schema.fill(_COMMENT.sub("", self.source)).strip().removesuffix(";")
            known = self._texts[schema] = f"/* {schema.name}.{self.name} */ {body}"
        return known

    def with_params(self, schema: Schema, /, **params: Any) -> Statement[T]:
        text = self.text(schema)
        return Statement(self.name, text, params, self.decode, self.is_repeatable, schema, self.is_bunched)
