"""Which jobs a verb is about: ids, all that match a filter, or all that it can concern."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from holdfast.cli.filters import read_filter
from holdfast.cli.options import WholeNumber
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.states import JOB_STATES
from holdfast.insights.bulk_actions import ActionName, can_concern

Acting = Callable[..., int | None]


@dataclass(frozen=True, slots=True)
class Targets:
    """Either `ids`, or what `filter_for` answers."""

    ids: tuple[int, ...]
    filter: JobFilter | None
    is_all: bool
    is_dry_run: bool

    def filter_for(self, action: ActionName) -> JobFilter | None:
        """None if the operator gave ids. All jobs are those in a state that the action can concern."""
        if self.is_all:
            return JobFilter(states=tuple(state for state in JOB_STATES if can_concern(action, state)))
        return self.filter


def which_jobs(command: Acting) -> Acting:
    """Adds ID…, --filter, --all and --dry-run, and gives them to the command as `targets`."""

    @click.argument("jobs", type=WholeNumber(1), nargs=-1, metavar="[ID]…")
    @click.option(
        "--filter",
        "text",
        metavar="FILTER",
        help="All jobs that match, in place of ids: `state:failed kind:pay`.",
    )
    @click.option(
        "--all", "is_all", is_flag=True, help="All jobs that this can be done with, in place of ids."
    )
    @click.option("--dry-run", is_flag=True, help="With --filter or --all: only say what would be done.")
    @wraps(command)
    def with_targets(
        *, jobs: Sequence[int], text: str | None, is_all: bool, dry_run: bool, **more: Any
    ) -> int | None:
        return command(targets=_targets(tuple(jobs), text, is_all=is_all, is_dry_run=dry_run), **more)

    return with_targets


def _targets(jobs: tuple[int, ...], text: str | None, *, is_all: bool, is_dry_run: bool) -> Targets:
    given = [bool(jobs), text is not None, is_all].count(True)
    if given == 0:
        raise _wrong("say which jobs: give their ids, --filter or --all")
    if given > 1:
        raise _wrong("give ids, --filter or --all, not several of them")
    if is_dry_run and jobs:
        raise _wrong("--dry-run is for --filter and --all")
    job_filter = None if text is None else read_filter([text])
    if job_filter is not None and not job_filter:
        # A variable of the shell that was not set: it does not mean every job.
        raise _wrong("the filter is empty: say which jobs, or give --all")
    return Targets(jobs, job_filter, is_all, is_dry_run)


def _wrong(sentence: str) -> click.UsageError:
    return click.UsageError(sentence, click.get_current_context())
