"""Verbs that list jobs check their limit, cursor and filters."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import App
from holdfast.errors import InvalidInput
from support.blocking_in_a_loop import both_colours

LISTS: dict[str, Callable[[App], Any]] = {
    "flows": lambda app: app.flows.list_sync,
    "plans": lambda app: lambda **asked: app.schedules.plans_sync("daily", **asked),
}
AWAITED: dict[str, Callable[[App], Any]] = {
    "flows": lambda app: app.flows.list,
    "plans": lambda app: lambda **asked: app.schedules.plans("daily", **asked),
}


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("limit", [-1, 0, 10_001, 10**12, True, "5", 5.0, None])
@both_colours
async def test_a_list_has_a_limit_from_1_to_10000(name: str, limit: Any, app: App) -> None:
    says = r"limit is .*: give 1 to 10,000, and use before= or after= for the next page"
    with pytest.raises(InvalidInput, match=says):
        await AWAITED[name](app)(limit=limit)
    with pytest.raises(InvalidInput, match=says):
        LISTS[name](app)(limit=limit)


@pytest.mark.parametrize(
    ("name", "before", "says"),
    [
        ("flows", "5", "'5' is not a job id"),
        ("flows", 2**63, "is not a job id"),
        ("plans", 5, "the time 5 is not a time: use an aware datetime"),
        ("plans", "2026-01-01", "the time '2026-01-01' is not a time"),
    ],
)
def test_a_page_begins_before_something_that_such_a_list_can_hold(
    name: str, before: Any, says: str, blocking_app: App
) -> None:
    with pytest.raises(InvalidInput, match=says):
        LISTS[name](blocking_app)(before=before)


@pytest.mark.parametrize("jobs", ["5", None, (n for n in [5]), [5.0], ["5"], [True]])
def test_jobs_are_named_by_a_list_of_their_ids(jobs: Any, blocking_app: App) -> None:
    """Not by a generator: it would be used up by the first look at it."""
    app = blocking_app
    for verb in (app.jobs.cancel_sync, app.jobs.resume_sync, app.jobs.retry_sync, app.jobs.delete_sync):
        with pytest.raises(InvalidInput, match=r"is not a job id: give|is not a list of job ids: give"):
            verb(jobs)
