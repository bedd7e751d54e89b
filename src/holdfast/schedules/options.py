"""What a schedule can be asked for, as callers write it."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import structs

from holdfast.domain.duration import Length, duration
from holdfast.domain.schedule_rules import Missed, Overlap, Rules, read_rules
from holdfast.domain.timing import Timing
from holdfast.errors import InvalidInput
from holdfast.schedules.scopes import Given, use
from holdfast.storage.schedules import WHOLE_APP, NewSchedule, NewScope

if TYPE_CHECKING:
    from holdfast.job import Call


class RuleOptions(TypedDict, total=False):
    """missed: of plans that came due while no leader was there, fire the "latest" (the default), "every" one
    (within `window`, `max_per_pass` at once), or "skip" those later than `max_lateness`. overlap: while an
    earlier job is active, "allow" the next, "skip" it, or "queue" it. delay, jitter: how much later
    the job runs. starts_at, ends_at: no plans before and after.
    """

    missed: Missed
    window: Length
    max_per_pass: int
    max_lateness: Length
    overlap: Overlap
    delay: Length
    jitter: Length
    starts_at: datetime
    ends_at: datetime


def rules_of(options: RuleOptions) -> Rules:
    unknown = sorted(options.keys() - RuleOptions.__optional_keys__)
    if unknown:
        raise InvalidInput(f"a schedule takes no {unknown[0]}=…: see docs/reference/schedules.md")
    return read_rules(**options)


def stored_schedule(
    name: str,
    call: "Call[Any]",
    timing: Timing,
    rules: Rules,
    history: Length,
    *,
    scope: str | None,
    scopes: Sequence[Given] | None,
) -> tuple[NewSchedule, Sequence[NewScope]]:
    """For `put`: the schedule, and its scopes."""
    if scope is not None and scopes is not None:
        raise InvalidInput("give scope for one or scopes for several, not both")
    if not structs.replace(call.job, limits=()).is_plain:
        raise InvalidInput(
            "a schedule says when its job runs: leave out delay, at, deadline and unique (give unique=False "
            'if its kind has one); for one at a time there is overlap="skip"'
        )
    if call.kind.limits is not None and call.job.limits != call.kind.limits.of(call.job.args):
        raise InvalidInput(
            "the jobs of a schedule use limits as their arguments say when they fire: leave out "
            "using(limit=…)"
        )
    new = NewSchedule(
        name,
        timing,
        call.job.policy,
        call.job.args,
        rules,
        duration(history, name="history"),
        has_scopes=scope is not None or scopes is not None,
    )
    if not new.has_scopes:
        return new, WHOLE_APP
    _check_list(scopes)
    read = use([scope] if scope is not None else scopes or (), call.kind, has_args=True)
    if read.problem:
        raise InvalidInput(f'schedule "{name}": {read.problem}')
    return new, read.scopes


def _check_list(scopes: object) -> None:
    is_list = isinstance(scopes, Iterable) and not isinstance(scopes, str | bytes) and not callable(scopes)
    if scopes is not None and not is_list:
        raise InvalidInput(
            f"scopes is {scopes!r}: give a list, as a stored schedule has; a query or a function goes with "
            "@app.schedule"
        )
