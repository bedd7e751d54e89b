"""Arguments of the wrong type or range raise InvalidInput, and nothing is written."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import App
from holdfast.errors import InvalidInput

YESTERDAY = datetime.now(UTC) - timedelta(days=1)

REASONS: dict[str, Callable[[Any, Any], object]] = {
    "app.cancel": lambda app, odd: app.jobs.cancel_sync([1], reason=odd),
    "handle.cancel": lambda app, odd: app.handle(1).cancel_sync(odd),
    "flows.cancel": lambda app, odd: app.flows.cancel_sync(1, reason=odd),
    "queues.pause": lambda app, odd: app.queues.pause_sync("q", note=odd),
    "schedules.pause": lambda app, odd: app.schedules.pause_sync("daily", note=odd),
    "schedules.run_now": lambda app, odd: app.schedules.run_now_sync("daily", reason=odd),
    "schedules.backfill": lambda app, odd: app.schedules.backfill_sync(
        "daily", YESTERDAY, YESTERDAY, reason=odd
    ),
}


@pytest.fixture
def shop(blocking_app: App) -> App:
    @blocking_app.job
    def work() -> None: ...

    blocking_app.schedules.put_sync("daily", work.call(), every="1d", scope="a")
    return blocking_app


@pytest.mark.parametrize("odd", [5, b"x", ["x"], True])
@pytest.mark.parametrize("verb", REASONS)
def test_a_reason_and_a_note_are_text(verb: str, odd: Any, shop: App) -> None:
    with pytest.raises(InvalidInput, match=r"(reason|note) is .*: give text"):
        REASONS[verb](shop, odd)


@pytest.mark.parametrize("verb", [verb for verb in REASONS if "schedules" in verb])
def test_a_reason_of_any_text_is_kept_readable(verb: str, shop: App) -> None:
    REASONS[verb](shop, "why\0 \ud800" + "y" * 5_000)


BY_NAME: dict[str, Callable[[Any, Any], object]] = {
    "get": lambda app, name: app.schedules.get_sync(name),
    "pause": lambda app, name: app.schedules.pause_sync(name),
    "resume": lambda app, name: app.schedules.resume_sync(name),
    "delete": lambda app, name: app.schedules.delete_sync(name),
    "run_now": lambda app, name: app.schedules.run_now_sync(name),
    "skip_next": lambda app, name: app.schedules.skip_next_sync(name),
    "next_times": lambda app, name: app.schedules.next_times_sync(name),
    "preview": lambda app, name: app.schedules.preview_sync(name, YESTERDAY, YESTERDAY),
    "backfill": lambda app, name: app.schedules.backfill_sync(name, YESTERDAY, YESTERDAY),
    "plans": lambda app, name: app.schedules.plans_sync(name),
    "latest_plan": lambda app, name: app.schedules.latest_plan_sync(name),
}
IN_SCOPE: dict[str, Callable[[Any, Any], object]] = {
    "run_now": lambda app, scope: app.schedules.run_now_sync("daily", scope=scope),
    "skip_next": lambda app, scope: app.schedules.skip_next_sync("daily", scope=scope),
    "next_times": lambda app, scope: app.schedules.next_times_sync("daily", scope=scope),
    "preview": lambda app, scope: app.schedules.preview_sync("daily", YESTERDAY, YESTERDAY, scope=scope),
    "backfill": lambda app, scope: app.schedules.backfill_sync("daily", YESTERDAY, YESTERDAY, scope=scope),
    "plans": lambda app, scope: app.schedules.plans_sync("daily", scope=scope),
    "latest_plan": lambda app, scope: app.schedules.latest_plan_sync("daily", scope=scope),
}
NO_NAMES = [5, b"daily", "a\0b", "\ud800", "n" * 201]


@pytest.mark.parametrize("verb", BY_NAME)
def test_a_schedule_is_named_by_text_that_can_be_one(verb: str, shop: App) -> None:
    for odd in (*NO_NAMES, "", None):
        with pytest.raises(InvalidInput, match=r"schedule .* (must be text of 1 to 200|cannot be printed)"):
            BY_NAME[verb](shop, odd)


@pytest.mark.parametrize("verb", IN_SCOPE)
def test_a_scope_is_named_by_text_that_can_be_one(verb: str, shop: App) -> None:
    for odd in NO_NAMES:
        with pytest.raises(InvalidInput, match=r"scope .* (must be text of 1 to 200|cannot be printed)"):
            IN_SCOPE[verb](shop, odd)


ODD: dict[str, tuple[Callable[[Any], object], str]] = {
    "which plans": (
        lambda app: app.schedules.plans_sync("daily", is_unfired=5),
        "is_unfired is 5: give True or False",
    ),
    "calls": (lambda app: app.enqueue_many_sync(5), r"calls is 5: give \[job.call\(…\), …\]"),
    "no call": (lambda app: app.enqueue_many_sync([5]), "5 is not a call of this app's jobs"),
    "no call of a schedule": (
        lambda app: app.schedules.put_sync("hourly", 5, every="1h"),
        r"5 is not a call of this app's jobs: give job.call\(…\), with its arguments",
    ),
    "calls of a schedule": (
        lambda app: app.schedules.put_sync("hourly", [], every="1h"),
        r"is not a call of this app's jobs: give job.call\(…\), with its arguments",
    ),
    "a generator as a flow": (
        lambda app: app.flow(n for n in "ab"),
        "cannot be a flow: define it with async",
    ),
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_of_another_kind_is_told_as_such(what: str, shop: App) -> None:
    call, says = ODD[what]
    with pytest.raises(InvalidInput, match=says):
        call(shop)


@pytest.mark.parametrize("scopes", [5, "a", b"ab"])
def test_scopes_are_a_list(scopes: Any, shop: App) -> None:
    work: Any = shop.job(name="other")(lambda: None)
    with pytest.raises(InvalidInput, match=r"scopes is .*: give a list"):
        shop.schedules.put_sync("other", work.call(), every="1d", scopes=scopes)


@pytest.mark.parametrize("tags", [5, "news", (tag for tag in ["news"])])
def test_tags_are_a_list_of_texts(tags: Any, shop: App) -> None:
    with pytest.raises(InvalidInput, match=r"tags is .*: give a list of texts"):
        shop.job(tags=tags)
