"""Verbs that end in _sync, called where an event loop runs: they work, and are warned of."""

import asyncio
import warnings

import psycopg

from holdfast import App
from holdfast.errors import BlocksEventLoop


async def test_a_blocking_verb_in_a_running_event_loop_is_warned_of_once_for_each_line(app: App) -> None:
    @app.job
    def work() -> None: ...

    with warnings.catch_warnings(record=True) as caught:
        warnings.resetwarnings()  # as Python has it for programs
        handles = [work.enqueue_sync() for _ in range(3)]
        handles[0].cancel_sync()
    assert [each.category for each in caught] == [BlocksEventLoop, BlocksEventLoop]
    assert {each.filename for each in caught} == {__file__}
    assert "await enqueue()" in str(caught[0].message)
    assert "await cancel()" in str(caught[1].message)


async def test_a_blocking_verb_in_a_thread_or_on_the_callers_connection_is_not(app: App, dsn: str) -> None:
    @app.job
    def work() -> None: ...

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await asyncio.to_thread(work.enqueue_sync)
        with psycopg.connect(dsn) as connection:
            work.using(conn=connection).enqueue_sync()
    assert [each for each in caught if each.category is BlocksEventLoop] == []
