"""Masks what is secret in a kind, for everything that people read: lists, logs, errors, exports.

A place is written as a path: `/card/number`. `*` stands for any key or index, `**` for any depth, and `=glob`
for every key that matches a pattern, whatever its case. `/**/=*password*` is a name pattern: it says what is
secret by its name, wherever that stands. The handler gets the values as they are.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

MASK = "[secret]"

SECRET_NAMES = (
    "*password*",
    "*passwd*",
    "*pwd*",
    "*passphrase*",
    "*secret*",
    "*token",
    "*api_key*",
    "*apikey*",
    "*access_key*",
    "*private_key*",
    "*credential*",
    "authorization",
    "bearer",
    "cookie",
    "cookies",
    "tokens",
    "*access_tokens",
    "*api_tokens",
    "*auth_tokens",
    "*refresh_tokens",
)
"""What an App holds for secret by its name, unless it says so itself. Neither `*token*` nor `*tokens`:
`max_tokens` and `prompt_tokens` are counts.
"""

_ESCAPES = (("~", "~0"), ("/", "~1"), ("=", "~2"), ("*", "~3"))
_SHORTEST = 4
"""A shorter secret is not looked for in texts: masking every "1" would hide the text, not the secret."""


def path_of(*steps: str) -> str:
    """A path of literal keys. A step that is `*` or `**`, or begins with `=`, is given as it is."""
    return "".join(f"/{step}" for step in steps)


def literal(key: str) -> str:
    """A key as a step of a path, whatever its characters."""
    for character, escape in _ESCAPES:
        key = key.replace(character, escape)
    return key


def named(patterns: Iterable[str]) -> tuple[str, ...]:
    """Name patterns as paths."""
    return tuple(path_of("**", f"={pattern}") for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Redaction:
    """The secret places of one kind."""

    paths: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, paths: Iterable[str]) -> "Redaction":
        return cls(tuple(dict.fromkeys(tuple(path.split("/")[1:]) for path in paths)))

    def masked(self, value: Any) -> Any:
        """A copy in which each secret place holds the mask. Keeps None: it shows that nothing was given."""
        return _masked(value, self.paths) if self.paths else value

    def below(self, key: str) -> "Redaction":
        """What it says about the value at one key."""
        return Redaction(_below(self.paths, key))

    def secrets_in(self, value: Any) -> tuple[str, ...]:
        """The texts at secret places, longest first, to be masked where they appear in other texts. As they
        are, and as `repr` and JSON write them: with quotes, line ends and other characters escaped.
        """
        plain = {text for text in _texts(_secrets(value, self.paths)) if len(text) >= _SHORTEST}
        found = {written for text in plain for written in _writings(text)}
        return tuple(sorted(found, key=lambda text: (-len(text), text)))

    def covers(self, path: Sequence[str]) -> bool:
        """Whether a place, or a part of it, is secret. What is below a place may also have a name that a
        pattern matches: only its value tells.
        """
        return any(_touches(pattern, tuple(path)) for pattern in self.paths)

    def is_told_by(self, path: Sequence[str], value: Any) -> bool:
        """Whether somebody who asks if this value is at this place would learn a secret."""
        below = self
        for step in path:
            below = below.below(step)
        return self.covers(path) or below.has_secrets_in(value)

    def has_secrets_in(self, value: Any) -> bool:
        return any(True for _ in _secrets(value, self.paths))

    def anywhere(self) -> "Redaction":
        """What it says of any value, wherever it comes from: its name patterns."""
        return Redaction(tuple(path for path in self.paths if _is_named(path)))

    def declared(self) -> "Redaction":
        """The rest of it: places."""
        return Redaction(tuple(path for path in self.paths if not _is_named(path)))

    def written(self) -> tuple[str, ...]:
        """As `of` reads it."""
        return tuple(path_of(*path) for path in self.paths)

    def restored(self, edited: Any, stored: Any) -> Any:
        """What an operator has edited, with the stored value wherever the mask was left in its place."""
        return _restored(edited, stored, self.paths)


EVERYTHING = Redaction(((),))
NOTHING = Redaction(())


@dataclass(frozen=True, slots=True)
class Redactions:
    """What is secret in each kind, by its name. Of a kind of which nothing is known, everything is."""

    known: Mapping[str, Redaction]

    def of(self, kind: str | None) -> Redaction:
        """None: not even the kind is known any more."""
        return EVERYTHING if kind is None else self.known.get(kind, EVERYTHING)

    def with_all(self, others: "Redactions", kinds: Iterable[str]) -> "Redactions":
        """What one of both says, of these kinds."""
        both = {kind: [each.known[kind] for each in (self, others) if kind in each.known] for kind in kinds}
        return Redactions(
            {
                kind: Redaction(tuple(dict.fromkeys(path for each in found for path in each.paths)))
                for kind, found in both.items()
                if found
            }
        )


NONE_KNOWN = Redactions({})


def scrubbed(text: str, secrets: Sequence[str]) -> str:
    """A text without the secrets that it quotes."""
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def _masked(value: Any, paths: tuple[tuple[str, ...], ...]) -> Any:
    if not paths or value is None:
        return value
    if () in paths:
        return MASK
    match value:
        case Mapping():
            return {key: _masked(item, _below(paths, str(key))) for key, item in value.items()}
        case list() | tuple():
            return [_masked(item, _below(paths, str(index))) for index, item in enumerate(value)]
        case _:
            return value


def _secrets(value: Any, paths: tuple[tuple[str, ...], ...]) -> Iterator[Any]:
    if not paths:
        return
    if () in paths:
        yield value
        return
    match value:
        case Mapping():
            for key, item in value.items():
                yield from _secrets(item, _below(paths, str(key)))
        case list() | tuple():
            for index, item in enumerate(value):
                yield from _secrets(item, _below(paths, str(index)))


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        match value:
            case str():
                yield value
            case Mapping():
                yield from _texts(value.values())
            case list() | tuple():
                yield from _texts(value)
            case int() | float() if not isinstance(value, bool):
                yield str(value)


def _writings(text: str) -> tuple[str, ...]:
    """A text as messages may quote it. `repr` escapes its own quotes, so both kinds of them are tried."""
    shown = repr(text)[1:-1]
    other = repr(text + "'\"")[1:-1].removesuffix("\\'\"")
    in_json = json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]
    return text, shown, other, ascii(text)[1:-1], *in_json


def scrubbed_value(value: Any, secrets: Sequence[str]) -> Any:
    """A JSON value in which no text quotes one of these secrets."""
    match value:
        case str():
            return scrubbed(value, secrets)
        case Mapping():
            return {key: scrubbed_value(item, secrets) for key, item in value.items()}
        case list() | tuple():
            return [scrubbed_value(item, secrets) for item in value]
        case _:
            return value


def _restored(edited: Any, stored: Any, paths: tuple[tuple[str, ...], ...]) -> Any:
    if () in paths:
        return stored if edited == MASK else edited
    match edited, stored:
        case Mapping(), Mapping():
            return {
                key: _restored(item, stored.get(key), _below(paths, str(key))) for key, item in edited.items()
            }
        case list(), list():
            padded = [*stored, *[None] * len(edited)]
            return [
                _restored(item, padded[index], _below(paths, str(index))) for index, item in enumerate(edited)
            ]
        case _:
            return edited


def _below(paths: tuple[tuple[str, ...], ...], key: str) -> tuple[tuple[str, ...], ...]:
    """What the paths say about the value at this key."""
    found = []
    for path in paths:
        if not path:
            found.append(path)
        elif path[0] == "**":
            found.append(path)
            found.extend(_below((path[1:],), key))
        elif _fits(path[0], key):
            found.append(path[1:])
    return tuple(dict.fromkeys(found))


def _fits(step: str, key: str) -> bool:
    if step == "*":
        return True
    if step.startswith("="):
        return fnmatchcase(key.lower(), step[1:].lower())
    return step == literal(key)


def _is_named(path: tuple[str, ...]) -> bool:
    return len(path) == 2 and path[0] == "**" and path[1].startswith("=")  # noqa: PLR2004  # `/**/=glob`


def _touches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether a secret lies at this place, above it or below it. Of a name it is not said where it stands."""
    if not pattern:
        return True
    if not path:
        return not _is_named(pattern)
    if pattern[0] == "**":
        return _touches(pattern[1:], path) or _touches(pattern, path[1:])
    return _fits(pattern[0], path[0]) and _touches(pattern[1:], path[1:])
