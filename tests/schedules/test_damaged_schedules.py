"""Schedules, scopes and plans damaged by hand, every column with the extremes of its type, beside sound ones
and a real worker: the sound ones fire, the planner goes on, and what cannot be planned is told.
"""

import asyncio
from datetime import timedelta

import psycopg
import pytest

from holdfast import App
from schedules.driven_planner import Books
from support.damaged_rows import Turns, damage, damages, failing_chores, turns
from support.waiting import until

__all__ = ["turns"]  # a fixture

SPAN = timedelta(days=1000)

# A schedule of which there is neither a plan, nor a reason why there is none.
UNTOLD = """
    select c.schedule, c.scope, c.next_at, s.paused_at, s.paused_until
      from holdfast.schedule_scope c
      left join holdfast.schedule s on s.name = c.schedule
     where c.schedule like 'bad %%' and c.error is null and s.error is null and s.paused_at is null
       and c.gone_at is null and c.next_at <= now()
       and not exists (select from holdfast.plan p where p.schedule = c.schedule and p.scope = c.scope)"""


@pytest.mark.requirement("S3.19")
@pytest.mark.machine  # half a minute each, and longer beside other work
@pytest.mark.timeout(400)
@pytest.mark.parametrize("scopes", [None, ["a", "b"]], ids=["plain", "scopes"])
@pytest.mark.parametrize("table", ["schedule", "schedule_scope", "plan"])
async def test_damaged_rows_stop_no_sound_schedule_and_are_told(  # noqa: PLR0917  # fixtures
    dsn: str,
    app: App,
    books: Books,
    turns: Turns,
    caplog: pytest.LogCaptureFixture,
    table: str,
    scopes: list[str] | None,
) -> None:
    @app.job
    async def report() -> int:
        return 1

    connection = psycopg.connect(dsn, autocommit=True)
    with connection:
        wanted = list(damages(connection, table))
        for number, (column, value) in enumerate(wanted):
            name = f"bad {number}"
            await app.schedules.put(name, report.call(), every=SPAN, scopes=scopes, overlap="skip")
            if table == "plan":
                connection.execute(
                    "insert into holdfast.plan (schedule, scope, plan_time, decided_at, keep_until, decision)"
                    " select schedule, scope, now() - interval '9 d', now(), now() + interval '9 d', 'fired'"
                    " from holdfast.schedule_scope where schedule = %s",
                    [name],
                )
            books.look_back(name, SPAN)
            damage(connection, table, column, value, "name" if table == "schedule" else "schedule", name)
        for number in range(5):
            await app.schedules.put(f"good {number}", report.call(), every=SPAN, scopes=scopes)
            books.look_back(f"good {number}", SPAN)

        def fired() -> bool:
            rows = books.rows(
                "select state from holdfast.plans where schedule like 'good %%' and job is not null"
            )
            return [state for (state,) in rows] == ["succeeded"] * 5 * len(scopes or [""])

        async with app.worker():
            await until(fired)
            await until(lambda: not books.rows(UNTOLD))
            late = await report.enqueue()
            assert await late.result(timeout="30s") == 1
            turns.clear()
            await asyncio.sleep(1)
            assert turns.hot(40) == {}
        # What operators look at shows them all.
        for schedule in await app.schedules.list():
            await app.schedules.plans(schedule.name)
    assert failing_chores(caplog) == []
