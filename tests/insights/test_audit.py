"""`app.audit`: who did what."""

from typing import Any

import psycopg
import pytest

from holdfast import App
from holdfast.errors import InvalidInput
from holdfast.insights.audit import AuditPage, audit_page
from holdfast.postgres.conversation import hold
from support.blocking_in_a_loop import both_colours


def fill(dsn: str, *entries: tuple[str, str]) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for by, action in entries:
            connection.execute(
                "insert into holdfast.audit (at, by, action, target, counts)"
                " values (now(), %s, %s, 'job 1', '{}')",
                (by, action),
            )


@both_colours
async def test_entries_come_newest_first_with_what_was_done(app: App, dsn: str) -> None:
    @app.job
    async def work() -> None: ...

    job = (await work.enqueue()).id
    await app.jobs.move(job, "bulk", create=True, by="ann", reason="too many")
    await app.jobs.cancel([job, 99], by="eve")
    page = await app.audit.list()
    last, first = page.entries
    assert (first.action, first.by, first.target, first.reason) == (
        "move to bulk",
        "ann",
        f"job {job}",
        "too many",
    )
    assert first.counts == {"moved": 1}
    assert (last.action, last.by, last.counts) == ("cancel", "eve", {"cancelled": 1, "unknown": 1})
    assert (page.next, page.searched) == (None, None)
    assert app.audit.list_sync().entries == page.entries


async def test_an_operator_and_an_action_are_looked_for(app: App, dsn: str) -> None:
    fill(dsn, ("ann", "move to bulk"), ("eve", "move to bulk"), ("ann", "cancel"), ("ann", "moved by hand"))

    async def found(**given: Any) -> list[tuple[str, str]]:
        return [(entry.by, entry.action) for entry in (await app.audit.list(**given)).entries]

    assert await found(by="eve") == [("eve", "move to bulk")]
    assert await found(action="move") == [("eve", "move to bulk"), ("ann", "move to bulk")]
    assert await found(action="move to bulk", by="ann") == [("ann", "move to bulk")]
    assert await found(action="mov") == []
    assert await found(by="nul\0") == []


async def test_pages_go_on_at_their_cursor_and_hold_each_entry_once(app: App, dsn: str) -> None:
    fill(dsn, *[("ann", f"act {n}") for n in range(5)])
    seen, after = [], None
    for expected in (2, 2, 1):
        page = await app.audit.list(after=after, limit=2)
        assert len(page.entries) == expected
        seen += [entry.action for entry in page.entries]
        after = page.next
    assert (seen, after) == ([f"act {n}" for n in (4, 3, 2, 1, 0)], None)
    assert (await app.audit.list(limit=5)).next is None, "a full page that is the last"


async def test_a_page_that_looked_at_many_says_so_and_the_next_goes_on(app: App, dsn: str) -> None:
    async def of_eve(after: str | None) -> AuditPage:
        looking = audit_page(app.schema, by="eve", action=None, after=after, limit=2, window=3)
        return await hold(looking, app.run)

    fill(dsn, ("eve", "cancel"), *[("ann", "cancel")] * 4)
    page = await of_eve(None)
    assert (page.entries, page.searched) == ((), 3)
    page = await of_eve(page.next)
    assert [entry.by for entry in page.entries] == ["eve"]
    assert (page.next, page.searched) == (None, None)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"after": "nonsense"}, "give the `next` of a page"),
        ({"limit": 0}, "limit"),
        ({"by": 5}, "by is 5"),
        ({"action": 5}, "action is 5"),
    ],
)
async def test_bad_input_is_refused(app: App, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        await app.audit.list(**given)
