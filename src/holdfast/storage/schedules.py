"""Schedules: declared or stored, with their scopes; paused, resumed, skipped and deleted by operators."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from holdfast.domain.backoff import to_json
from holdfast.domain.failure import storable
from holdfast.domain.job import Policy, check_args_text, check_length, check_name
from holdfast.domain.retention import HISTORY
from holdfast.domain.schedule_rules import Rules, check_scope, check_together, rules_to_json
from holdfast.domain.timing import Timing, timing_to_json
from holdfast.errors import InvalidInput, ScheduleConflict
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.arrays import text_array
from holdfast.storage.operators import NOTE_LIMIT, pause_params
from holdfast.storage.statements import statement

MOST_SCOPES = 100_000


@dataclass(frozen=True, slots=True)
class NewSchedule:
    """A schedule before it is written: when, by which rules, and the job that it fires.

    `has_scopes`: it fires for the scopes that it is given, else once for the whole app.
    """

    name: str
    timing: Timing
    policy: Policy
    args: str = "{}"
    rules: Rules = field(default_factory=Rules)
    history: timedelta = HISTORY
    has_scopes: bool = False

    def __post_init__(self) -> None:
        check_name("schedule", self.name)
        check_together(self.timing, self.rules)
        check_args_text(self.args)
        check_length("history", self.history)
        if self.history <= timedelta():
            raise InvalidInput(f"history is {self.history}: give how long plans are kept, such as 30 days")


@dataclass(frozen=True, slots=True)
class NewScope:
    """One scope with what it has of its own: args as the text of a JSON object, a time zone."""

    scope: str
    args: str | None = None
    zone: str | None = None


WHOLE_APP = (NewScope(""),)


class Put(NamedTuple):
    is_new: bool
    is_changed: bool


class ScopesChanged(NamedTuple):
    came: int
    changed: int
    went: int


class ScheduleRow(NamedTuple):
    """A schedule with where it stands. `error` is of its declaration, its scopes' source, or a scope."""

    name: str
    version: int
    created_at: datetime
    changed_at: datetime
    declared_at: datetime | None
    has_scopes: bool
    timing: str
    rules: str
    history: timedelta
    paused_at: datetime | None
    paused_until: datetime | None
    pause_note: str | None
    kind: str
    queue: str
    priority: int
    max_attempts: int
    args: str
    on_lost: str | None
    timeout: timedelta | None
    keep: timedelta | None
    tags: list[str] | None
    error: str | None
    is_paused: bool
    is_orphaned: bool
    is_kind_known: bool
    scopes: int
    failing: int
    last_plan_at: datetime | None
    next_at: datetime | None
    now: datetime


class ScopeRow(NamedTuple):
    scope: str
    zone: str | None
    args: str | None
    since_at: datetime
    last_plan_at: datetime | None
    next_at: datetime | None
    pruned_until: datetime | None
    job: int | None
    skips: list[datetime] | None
    error: str | None


_PUT = statement("schedule_put", Put)
_SCOPES = statement("schedule_scopes", ScopesChanged)
_TEND = statement("schedule_tend", str)
_TROUBLE = statement("schedule_trouble", str)
_FIND = statement("schedule_find", ScheduleRow, is_repeatable=True)
_SCOPE_LIST = statement("schedule_scope_list", ScopeRow, is_repeatable=True)
_PAUSE = statement("schedule_pause", str)
_RESUME = statement("schedule_resume", bool)
_DELETE = statement("schedule_delete", str)
_SKIP = statement("schedule_skip", str)


def put(
    schema: Schema, new: NewSchedule, *, is_declared: bool, now: datetime | None = None
) -> Conversation[Put]:
    """Write one. ScheduleConflict if the name belongs to a schedule of the other sort."""
    policy = new.policy
    rows = yield from ask(
        _PUT.with_params(
            schema,
            name=new.name,
            is_declared=is_declared,
            has_scopes=new.has_scopes,
            timing=timing_to_json(new.timing),
            rules=rules_to_json(new.rules),
            history=new.history,
            priority=policy.priority,
            max_attempts=policy.max_attempts,
            kind=policy.kind,
            queue=policy.queue,
            args=new.args,
            backoff=to_json(policy.backoff),
            timeout=policy.timeout,
            keep=policy.keep,
            on_lost=None if policy.on_lost == "retry" else policy.on_lost,
            tags=text_array(policy.tags),
            now=now,
        )
    )
    if not rows:
        raise ScheduleConflict(new.name, is_declared=not is_declared)
    return rows[0]


def put_whole(
    schema: Schema,
    new: NewSchedule,
    scopes: Sequence[NewScope],
    *,
    is_declared: bool,
    now: datetime | None = None,
) -> Conversation[Put]:
    """Write one with its scopes; answers whether one of both changed. Hold it in a transaction: between the
    two it would have none.
    """
    done = yield from put(schema, new, is_declared=is_declared, now=now)
    changes = yield from ask(set_scopes(schema, new.name, scopes, now=now))
    return Put(done.is_new, is_changed=done.is_changed or any(any(each) for each in changes))


def set_scopes(
    schema: Schema, schedule: str, scopes: Sequence[NewScope], *, now: datetime | None = None
) -> Statement[ScopesChanged]:
    """Make the scopes of a schedule these, and no others."""
    if len(scopes) > MOST_SCOPES:
        raise InvalidInput(f'schedule "{schedule}" has {len(scopes):,} scopes: the most is {MOST_SCOPES:,}')
    ordered = sorted({scope.scope: scope for scope in scopes}.values(), key=lambda scope: scope.scope)
    return _SCOPES.with_params(
        schema,
        schedule=schedule,
        scopes=text_array([scope.scope for scope in ordered]),
        args=text_array([scope.args for scope in ordered]),
        zones=text_array([scope.zone for scope in ordered]),
        now=now,
    )


def tend(
    schema: Schema, names: Sequence[str], *, pause: timedelta, now: datetime | None = None
) -> Statement[str]:
    """Say that these are still declared; answers those whose scopes the caller is to read."""
    return _TEND.with_params(schema, names=list(names), pause=pause, now=now)


def trouble(schema: Schema, name: str, error: str | None) -> Statement[str]:
    """What is wrong with a declaration or the source of its scopes; None: nothing any more."""
    return _TROUBLE.with_params(schema, name=name, error=error and storable(error)[:NOTE_LIMIT])


def find(schema: Schema, name: str | None = None, *, now: datetime | None = None) -> Statement[ScheduleRow]:
    """One schedule, or all of them by name."""
    return _FIND.with_params(schema, name=name, now=now)


def scopes_of(
    schema: Schema, schedule: str, *, scope: str | None = None, after: str | None = None, limit: int = 1_000
) -> Statement[ScopeRow]:
    """A page of the scopes that fire, by name; the next one begins `after` the last of this one."""
    check_scope(scope)
    return _SCOPE_LIST.with_params(schema, schedule=schedule, scope=scope, after=after, limit=limit)


def pause(
    schema: Schema,
    name: str,
    *,
    note: str | None = None,
    until: datetime | None = None,
    length: timedelta | None = None,
    now: datetime | None = None,
) -> Statement[str]:
    """Stop a schedule from firing: until it is resumed, until a time, or for a length of time."""
    check_name("schedule", name)
    asked = pause_params("schedule", note=note, until=until, length=length)
    return _PAUSE.with_params(schema, name=name, now=now, **asked)


def resume(schema: Schema, name: str, *, now: datetime | None = None) -> Statement[bool]:
    """Let a schedule fire again; answers whether it was paused."""
    check_name("schedule", name)
    return _RESUME.with_params(schema, name=name, now=now)


def delete(schema: Schema, name: str) -> Statement[str]:
    """Forget a schedule; its plans and jobs stay."""
    check_name("schedule", name)
    return _DELETE.with_params(schema, name=name)


def skip(schema: Schema, schedule: str, plans: Sequence[tuple[str, datetime | None]]) -> Statement[str]:
    """Let these plans pass without a fire, and none but these; no time (None): none of that scope."""
    return _SKIP.with_params(
        schema,
        schedule=schedule,
        scopes=[scope for scope, _ in plans],
        plan_times=[moment for _, moment in plans],
    )
