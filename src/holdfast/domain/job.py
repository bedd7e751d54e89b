"""What is asked for: a job before it is written, checked so that nothing bad reaches the database."""

import json
import re
import reprlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol

from holdfast.domain.backoff import DEFAULT, Backoff
from holdfast.domain.duration import LONGEST, compact
from holdfast.domain.json_text import flaw, holds_nul
from holdfast.domain.light_value import LightValue
from holdfast.domain.limit_use import LimitUse
from holdfast.errors import InvalidInput

NAME_LIMIT = 200
MOST_TAGS = 100
KEY_LIMIT = 1_000  # bytes: with the longest name of a queue it must still fit into an index
ARGS_LIMIT = 1024 * 1024
MOST_ATTEMPTS = 32_767
PRIORITIES = range(10)
YEARS = range(1900, 9001)
MOST_LISTED = 10_000
# Control, format and private-use characters, separators other than the space, halves of surrogate pairs: a
# name with one of them looks like another name, or turns the line around that it stands in. A fixed list:
# what Python calls printable differs from release to release. The SQL function `enqueue` has the same.
_UNSEEN = re.compile(
    "[\\0-\x1f\x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u1680\u180e\u2000-\u200f"
    "\u2028-\u202f\u205f-\u206f\u3000\ud800-\udfff\ue000-\uf8ff\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\U000f0000-\U0010ffff]"
)
_IDS = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Policy:
    """How a job is run, independent of its arguments: what jobs of one kind usually share."""

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
        check_attempts(self.max_attempts)
        if self.timeout is not None and self.timeout <= timedelta():
            raise InvalidInput(f"timeout is {self.timeout}: it must be above 0")
        if self.keep is not None and self.keep < timedelta():
            raise InvalidInput(
                f"keep is {self.keep}: give 0 to delete a job when it ends, or a length of time"
            )
        check_length("timeout", self.timeout)
        check_length("keep", self.keep)
        if self.on_lost not in ("retry", "fail"):
            raise InvalidInput(f'on_lost is {self.on_lost!r}: give "retry" or "fail"')
        if len(self.tags) > MOST_TAGS:
            raise InvalidInput(f"a job has at most {MOST_TAGS} tags, not {len(self.tags):,}")
        for tag in self.tags:
            check_name("tag", tag)
        if self.origin is not None and (problem := flaw(self.origin)):
            raise InvalidInput(f"origin {_shown(self.origin)} must be JSON text: {problem}")


class NewJob(LightValue, frozen=True):
    """A policy, arguments as the text of a JSON object, and when. `limits` are what it has to pass before it
    runs, in the order of their names.
    """

    policy: Policy
    args: str = "{}"
    delay: timedelta | None = None
    run_at: datetime | None = None
    deadline_at: datetime | None = None
    deadline_in: timedelta | None = None
    unique_key: str | None = None
    limits: tuple[LimitUse, ...] = ()
    debounce: timedelta | None = None
    max_wait: timedelta | None = None
    unique_for: timedelta | None = None

    def __post_init__(self) -> None:
        if self.is_plain:
            return
        if self.delay is not None and self.delay < timedelta():
            raise InvalidInput(f"delay is {self.delay}: it must not be negative; leave it out to run now")
        if self.delay is not None and self.run_at is not None:
            raise InvalidInput("give a delay or a time, not both")
        check_length("delay", self.delay)
        if self.deadline_in is not None and self.deadline_at is not None:
            raise InvalidInput("a deadline is one time, or one length from now, not both")
        if self.deadline_in is not None and self.deadline_in <= timedelta():
            raise InvalidInput(f"deadline is {compact(self.deadline_in)}: it must be above 0")
        check_length("deadline", self.deadline_in)
        check_time("time", self.run_at)
        check_time("deadline", self.deadline_at)
        self._check_order()
        if self.unique_key is not None:
            check_key(self.unique_key)

    def _check_order(self) -> None:
        """Compare two lengths, or two moments. Only the database's clock can compare a length with a moment,
        or say whether a moment has passed.
        """
        first = last = ""
        if self.delay is not None and self.deadline_in is not None and self.deadline_in <= self.delay:
            first, last = f"delay {compact(self.delay)}", compact(self.deadline_in)
        elif self.debounce is not None and self.deadline_in is not None and self.deadline_in <= self.debounce:
            first, last = f"debounce {compact(self.debounce)}", compact(self.deadline_in)
        elif self.run_at is not None and self.deadline_at is not None and self.deadline_at <= self.run_at:
            first, last = f"at {self.run_at}", str(self.deadline_at)
        if first:
            raise InvalidInput(
                f"deadline is {last}, {first}: the job would have expired before it may run, give a later "
                "deadline or none"
            )

    @property
    def is_plain(self) -> bool:
        """Whether it is one of many that are nothing but due: no other time, no deadline, no unique key, no
        limit.
        """
        return (
            not self.limits
            and self.unique_key is None
            and self.delay is None
            and self.run_at is None
            and self.deadline_at is None
            and self.deadline_in is None
        )


def args_json(args: object, *, limit: int = ARGS_LIMIT) -> str:
    """The text of a JSON object, or an error that says what is wrong with it."""
    if not isinstance(args, Mapping) or not all(isinstance(name, str) for name in args):
        raise InvalidInput(f"args must be a JSON object with text as names, not {type(args).__name__}")
    try:
        text = json.dumps(dict(args), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"args cannot be written as JSON: {error}") from error
    check_args_text(text, limit=limit)
    return text


def check_args_text(text: str, *, limit: int = ARGS_LIMIT) -> None:
    """Raise if Postgres would not take this JSON as `jsonb`, or if it is too large for us."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidInput(
            "args hold half of a surrogate pair, which is not valid text: decode it properly first"
        ) from None
    if size > limit:
        raise InvalidInput(
            f"args take {size:,} bytes, the limit is {limit:,}: store them elsewhere and pass a reference"
        )
    if "\\u0000" in text and holds_nul(text):  # looked for twice: the first look takes a fiftieth of the time
        raise InvalidInput("args hold a NUL character, which Postgres cannot store: remove or encode it")


def check_name(what: str, name: object, limit: int = NAME_LIMIT) -> None:
    if not isinstance(name, str) or not 1 <= len(name) <= limit:
        raise InvalidInput(f"{what} {_shown(name)} must be text of 1 to {limit} characters")
    if has_unseen(name):
        raise InvalidInput(f"{what} {_shown(name)} holds characters that cannot be printed: use plain text")


def has_unseen(text: str) -> bool:
    """Whether it holds characters that cannot be printed."""
    return _UNSEEN.search(text) is not None


def check_text(what: str, text: object) -> None:
    """Text for people, so any character is allowed; what cannot be stored is replaced."""
    if not isinstance(text, str):
        raise InvalidInput(f"{what} is {_shown(text)}: give text")


def check_key(key: object, *, what: str = "unique key") -> None:
    check_name(what, key, KEY_LIMIT)
    size = len(str(key).encode())
    if size > KEY_LIMIT:
        raise InvalidInput(
            f"{what} {_shown(key)} takes {size:,} bytes, the limit is {KEY_LIMIT:,}: use a hash of it"
        )


def check_time(what: str, moment: object) -> None:
    if moment is None:
        return
    if not isinstance(moment, datetime):
        raise InvalidInput(f"the {what} {_shown(moment)} is not a time: use an aware datetime")
    if moment.tzinfo is None:
        raise InvalidInput(f"the {what} {moment} has no time zone: use an aware datetime")
    if moment.year not in YEARS:
        raise InvalidInput(f"the {what} {moment} is out of range: leave it out if there is none")


def check_length(what: str, length: timedelta | None) -> None:
    if length is not None and length > LONGEST:
        raise InvalidInput(f"{what} is {compact(length)}: the longest is {compact(LONGEST)}, a hundred years")


class NamesJob(Protocol):
    """What stands for a job wherever its id is taken: a handle, or a job of a list."""

    @property
    def __job_id__(self) -> int: ...


Target = int | NamesJob


def id_of(job: Target) -> int:
    found: Any = getattr(job, "__job_id__", job)
    check_ids([found])
    return int(found)


def check_ids(jobs: object) -> None:
    """A collection, not an iterator: the caller goes through it a second time."""
    if not isinstance(jobs, Collection):
        raise InvalidInput(f"{_shown(jobs)} is not a list of job ids: give integers, as enqueue returns them")
    for job in jobs:
        if not is_whole(job) or job not in _IDS:
            raise InvalidInput(f"{_shown(job)} is not a job id: give integers, as enqueue returns them")


def check_limit(limit: object) -> None:
    """Of a page, which the caller and the database hold as a whole."""
    if not is_whole(limit) or limit not in range(1, MOST_LISTED + 1):
        raise InvalidInput(
            f"limit is {_shown(limit)}: give 1 to {MOST_LISTED:,}, "
            "and use before= or after= for the next page"
        )


def check_attempts(attempts: int) -> None:
    if not is_whole(attempts) or not 1 <= attempts <= MOST_ATTEMPTS:
        raise InvalidInput(f"max_attempts is {attempts!r}: give 1 to {MOST_ATTEMPTS}, the first included")


def check_priority(priority: object) -> None:
    if not is_whole(priority) or priority not in PRIORITIES:
        raise InvalidInput(f"priority is {priority!r}: give 0 (most urgent) to 9")


def is_whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)


def _shown(name: object) -> str:
    return reprlib.repr(name)
