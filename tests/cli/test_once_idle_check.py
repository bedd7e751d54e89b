"""`holdfast worker --once` looks whether any job is left; an error of that look is logged once."""

import logging

import psycopg
import pytest

from holdfast import App
from holdfast.cli.one_worker import _is_idle, _log
from holdfast.postgres.failure_log import FailureLog
from holdfast.worker.options import WorkerOptions


async def test_a_look_that_keeps_failing_is_warned_of_once_and_told_when_it_works_again(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast.worker")
    failures = FailureLog(_log, "looking whether any job is left (--once)")
    with psycopg.connect(dsn, autocommit=True) as connection:
        async with App(dsn) as app:
            connection.execute("alter table holdfast.lease rename to elsewhere")
            for _ in range(3):
                assert not await _is_idle(app, 1, WorkerOptions(), failures)
            connection.execute("alter table holdfast.elsewhere rename to lease")
            assert await _is_idle(app, 1, WorkerOptions(), failures)
    failing, working = (record for record in caplog.records if "--once" in record.getMessage())
    assert (failing.levelname, working.levelname) == ("WARNING", "WARNING")
    assert "lease" in failing.getMessage()
