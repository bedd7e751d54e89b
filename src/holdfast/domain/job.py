"""What is asked for: a job before it is written, checked so that nothing bad reaches the database."""

import json
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from holdfast.domain.backoff import DEFAULT, Backoff
from holdfast.errors import InvalidInput

NAME_LIMIT = 200
KEY_LIMIT = 1_000
ARGS_LIMIT = 1024 * 1024
MOST_ATTEMPTS = 32_767
PRIORITIES = range(10)

# An escaped NUL: \u0000 behind an even number of backslashes.
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True, slots=True)
class Policy:
    """How a job is run, whatever its arguments: what jobs of one kind usually have in common."""

    kind: str
    queue: str = "default"
    priority: int = 5
    max_attempts: int = 20
    backoff: Backoff = DEFAULT
    timeout: timedelta | None = None
    keep: timedelta | None = None
    on_lost: Literal["retry", "fail"] = "retry"
    tags: tuple[str, ...] = ()
    origin: str | None = None

    def __post_init__(self) -> None:
        check_name("kind", self.kind)
        check_name("queue", self.queue)
        check_priority(self.priority)
        if not _is_whole(self.max_attempts) or not 1 <= self.max_attempts <= MOST_ATTEMPTS:
            raise InvalidInput(
                f"max_attempts is {self.max_attempts!r}: give 1 to {MOST_ATTEMPTS}, the first included"
            )
        if self.timeout is not None and self.timeout <= timedelta():
            raise InvalidInput(f"timeout is {self.timeout}: it must be longer than nothing")
        if self.keep is not None and self.keep < timedelta():
            raise InvalidInput(
                f"keep is {self.keep}: give 0 to forget a job when it ends, or a length of time"
            )
        if self.on_lost not in ("retry", "fail"):
            raise InvalidInput(f'on_lost is {self.on_lost!r}: give "retry" or "fail"')
        for tag in self.tags:
            check_name("tag", tag)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A policy, arguments as the text of a JSON object, and when."""

    policy: Policy
    args: str = "{}"
    delay: timedelta | None = None
    run_at: datetime | None = None
    deadline_at: datetime | None = None
    unique_key: str | None = None

    def __post_init__(self) -> None:
        if self.delay is not None and self.delay < timedelta():
            raise InvalidInput(f"delay is {self.delay}: it must not be negative; leave it out to run now")
        if self.delay is not None and self.run_at is not None:
            raise InvalidInput("give a delay or a time, not both")
        for name, moment in (("time", self.run_at), ("deadline", self.deadline_at)):
            if moment is not None and moment.tzinfo is None:
                raise InvalidInput(f"the {name} {moment} has no time zone: use an aware datetime")
        if self.unique_key is not None:
            check_name("unique key", self.unique_key, KEY_LIMIT)


def args_json(args: object, *, limit: int = ARGS_LIMIT) -> str:
    """The text of a JSON object, or an error that says what is wrong with it."""
    if not isinstance(args, Mapping) or not all(isinstance(name, str) for name in args):
        raise InvalidInput(f"args must be a JSON object with text as names, not {type(args).__name__}")
    try:
        text = json.dumps(dict(args), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(
            "args hold half of a surrogate pair, which is no text: decode it properly first"
        ) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"args cannot be written as JSON: {error}") from error
    if size > limit:
        raise InvalidInput(
            f"args take {size:,} bytes, the limit is {limit:,}: store them elsewhere and pass a reference"
        )
    if _ESCAPED_NUL.search(text):
        raise InvalidInput("args hold a NUL character, which Postgres cannot store: remove or encode it")
    return text


def check_name(what: str, name: object, limit: int = NAME_LIMIT) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= limit:
        raise InvalidInput(f"{what} {_shown(name)} must be text of 1 to {limit} characters")
    if "\0" in name or not name.isprintable():
        raise InvalidInput(f"{what} {_shown(name)} holds characters that cannot be printed: use plain text")


def check_priority(priority: object) -> None:
    if not _is_whole(priority) or priority not in PRIORITIES:
        raise InvalidInput(f"priority is {priority!r}: give 0 (most urgent) to 9")


def _is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _shown(name: object) -> str:
    return reprlib.repr(name)
