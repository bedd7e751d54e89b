"""An error of a handler reaches Sentry and structlog with its job, without an adapter of ours."""

import json
import logging
import subprocess
import sys
from typing import Any

import pytest
import structlog

from holdfast import App, Context, Retry
from holdfast.errors import JobEnded

# In a process of its own: Sentry patches the logging of the whole process, for good.
SENTRY = """
import asyncio, json, sys
import sentry_sdk
from sentry_sdk.transport import Transport
from holdfast import App, Retry, Secret

class Kept(Transport):
    def __init__(self, options=None):
        super().__init__(options)
        self.events = []

    def capture_envelope(self, envelope):
        self.events += [item.payload.json for item in envelope.items if item.type == "event"]

sentry_sdk.init(dsn="https://key@sentry.invalid/1", transport=Kept)

async def main():
    async with App(sys.argv[1]) as app:
        @app.job(queue="mail", tags=["vip"], retry=Retry(max_attempts=1))
        async def pay(order: int) -> None:
            raise ValueError(f"no money for {order}")

        @app.job(queue="mail", retry=Retry(max_attempts=1))
        async def charge(card: Secret[str]) -> None:
            raise ValueError(f"card {card} is refused")

        async with app.worker():
            handle = await (pay.enqueue(7) if sys.argv[2] == "pay" else charge.enqueue("4111-1111"))
            try:
                await handle.result("30s")
            except Exception:
                pass
    print(json.dumps(sentry_sdk.get_client().transport.events))

asyncio.run(main())
"""


def event_of(dsn: str, kind: str) -> dict[str, Any]:
    """What Sentry would have got."""
    command = [sys.executable, "-c", SENTRY, dsn, kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    [event] = json.loads(done.stdout)
    found: dict[str, Any] = event
    return found


def test_a_dead_job_is_an_event_of_sentry_with_its_facts(dsn: str) -> None:
    event = event_of(dsn, "pay")
    assert event["level"] == "error"
    [error] = [each for each in event["exception"]["values"] if each["type"] == "ValueError"]
    assert error["value"] == "no money for 7"
    assert any(frame["function"] == "pay" for frame in error["stacktrace"]["frames"])
    facts = event["extra"]["holdfast"]
    assert (facts["job"], facts["kind"], facts["queue"]) == (1, "pay", "mail")
    assert (facts["attempt"], facts["tags"]) == (1, "vip")


def test_an_error_that_may_quote_a_secret_comes_to_sentry_masked_and_without_its_frames(dsn: str) -> None:
    event = event_of(dsn, "charge")
    assert "exception" not in event
    assert "is refused" in json.dumps(event)
    assert "4111-1111" not in json.dumps(event)


async def fail(app: App) -> int:
    @app.job(queue="mail", tags=["vip"], retry=Retry(max_attempts=1))
    async def pay(order: int) -> None:
        raise ValueError(f"no money for {order}")

    async with app.worker():
        handle = await pay.enqueue(7)
        with pytest.raises(JobEnded):
            await handle.result("30s")
    return handle.id


async def test_structlog_renders_the_facts_of_a_run(dsn: str, caplog: pytest.LogCaptureFixture) -> None:
    """Records of the standard library, ours and those of `ctx.log`, through structlog's own formatter."""
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[structlog.stdlib.add_log_level, structlog.stdlib.ExtraAdder()],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.KeyValueRenderer(sort_keys=True),
        ],
    )
    async with App(dsn) as app:

        @app.job
        async def work(ctx: Context) -> None:
            ctx.log.warning("nearly out of stock")

        with caplog.at_level(logging.INFO):
            async with app.worker():
                handle = await work.enqueue()
                await handle.result("30s")
            job = await fail(app)
    lines = [formatter.format(record) for record in caplog.records]
    [said] = [line for line in lines if "nearly out of stock" in line]
    assert f"job={handle.id}" in said
    assert "attempt=1" in said
    [failed] = [line for line in lines if f"job={job}" in line and "level='error'" in line]
    assert "'kind': 'pay'" in failed
    assert "'tags': 'vip'" in failed
    assert "ValueError: no money for 7" in failed
