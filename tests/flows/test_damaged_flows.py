"""Checkpoints, waits, wake-ups and events damaged by hand, every column with the extremes of its type, beside
sound flows and a real worker: the sound ones finish, the waker goes on, and each bad one ends or waits.
"""

import asyncio

import psycopg
import pytest

from flows.fast_worker import working
from holdfast import App, Flow, Handle, Retry
from support.damaged_rows import Turns, damage, damages, failing_chores, turns
from support.waiting import until

__all__ = ["turns"]  # a fixture


@pytest.mark.machine  # half a minute each, and longer beside other work
@pytest.mark.timeout(400)
@pytest.mark.parametrize("table", ["checkpoint", "wait", "waiting", "event", "wakeup"])
async def test_damaged_rows_stop_no_sound_flow_and_no_chore(
    dsn: str, turns: Turns, caplog: pytest.LogCaptureFixture, table: str
) -> None:
    async with App(dsn) as app:

        @app.job
        async def child() -> int:
            await asyncio.sleep(0)
            return 2

        @app.flow(retry=Retry(max_attempts=2, backoff="10ms"))
        async def story(flow: Flow, number: int) -> int:
            one = await flow.step("one", int, 1)
            three: int = await flow.wait_event(f"go {number}", timeout="1 h", type=int)
            await flow.sleep("nap", "50ms")
            return one + three + await flow.call(child)

        connection = psycopg.connect(dsn, autocommit=True)
        with connection:
            async with working(app):
                wanted = list(damages(connection, table))
                bad = await begun(app, connection, story, range(len(wanted)))
                good = await begun(app, connection, story, range(1000, 1005))
                for handle, number, (column, value) in zip(bad, range(len(wanted)), wanted, strict=True):
                    await spoil(app, connection, table, column, value, number, handle.id)
                numbers = [*range(len(wanted)), *range(1000, 1005)]
                for number in numbers:
                    await app.emit(f"go {number}", 3)
                for handle in good:
                    assert await handle.result(timeout="30s") == 6
                jobs = [handle.id for handle in bad]

                async def is_quiet() -> bool:
                    rows = connection.execute(
                        "select id, state from holdfast.jobs where id = any(%s)"
                        " and state not in ('succeeded', 'failed', 'expired', 'waiting', 'lost')",
                        [jobs],
                    ).fetchall()
                    return not rows

                await until(is_quiet)
                late = await begun(app, connection, story, range(2000, 2003))
                for number in range(2000, 2003):
                    await app.emit(f"go {number}", 3)
                for handle in late:
                    assert await handle.result(timeout="30s") == 6
                turns.clear()
                await asyncio.sleep(1)
                assert turns.hot(60) == {}
            reasons = connection.execute(
                "select id from holdfast.jobs where state = 'failed' and error ->> 'message' is null"
            ).fetchall()
            assert reasons == []
            rounds = connection.execute(
                "select job, count(*) from holdfast.ledger group by job having count(*) > 25"
            ).fetchall()
            assert rounds == []
    assert failing_chores(caplog) == []


async def spoil(  # noqa: PLR0917  # a table, a place in it, a value
    app: App,
    connection: "psycopg.Connection[tuple[object, ...]]",
    table: str,
    column: str,
    value: str | None,
    number: int,
    job: int,
) -> None:
    """An event is damaged while it is kept; a wake-up, which is taken at once, as it is written."""
    if table == "event":
        await app.emit(f"kept {number}", 3)
        damage(connection, table, column, value, "key", f"kept {number}")
    elif table == "wakeup":
        if column != "id":
            connection.execute(f"insert into holdfast.wakeup ({column}) values (%s)", [value])
    else:
        damage(connection, table, column, value, "job", job)


async def begun(
    app: App, connection: "psycopg.Connection[tuple[object, ...]]", story: object, numbers: range
) -> list[Handle[int]]:
    """Flows that wait for their event."""
    handles: list[Handle[int]] = [await story.enqueue(number) for number in numbers]  # type: ignore[attr-defined]
    jobs = [handle.id for handle in handles]

    async def is_so() -> bool:
        found = connection.execute("select count(*) from holdfast.waiting where job = any(%s)", [jobs])
        return found.fetchone() == (len(jobs),)

    await until(is_so)
    return handles
