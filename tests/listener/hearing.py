"""What the tests of the Listener share: a subscriber that remembers, and waits that have a bound."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast.domain.backoff import Exponential
from holdfast.postgres.listener import Listener
from holdfast.postgres.notification import Gap, Notified, notify

BOUND = 30.0
QUICK = Exponential(timedelta(milliseconds=10), cap=timedelta(milliseconds=50))


class Ear:
    """A subscriber that keeps what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[Notified | Gap] = []

    def __call__(self, value: Notified | Gap) -> None:
        self.told.append(value)

    @property
    def payloads(self) -> list[str]:
        return [value.payload for value in self.told if isinstance(value, Notified)]

    @property
    def gaps(self) -> int:
        return sum(isinstance(value, Gap) for value in self.told)

    async def hears(self, *payloads: str) -> None:
        await eventually(lambda: self.payloads == list(payloads))


class Dialer:
    """Opens the listener's connections, as many and as well as its DSN at the moment allows."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.dialled: list[psycopg.AsyncConnection[Any]] = []

    async def __call__(self) -> psycopg.AsyncConnection[Any]:
        connection = await psycopg.AsyncConnection.connect(self.dsn)
        self.dialled.append(connection)
        return connection


class Said:
    """The lines that the listener logged."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        caplog.set_level(logging.INFO, logger="holdfast.postgres")

    @property
    def lines(self) -> list[str]:
        return [f"{record.levelname} {record.getMessage()}" for record in self._caplog.records]

    @property
    def losses(self) -> list[str]:
        return [line for line in self.lines if line.startswith("WARNING wake-ups are missing")]

    @property
    def recoveries(self) -> list[str]:
        return [line for line in self.lines if line.startswith("INFO wake-ups are back")]


def a_listener(dial: Dialer | str, **options: Any) -> Listener:
    dial = Dialer(dial) if isinstance(dial, str) else dial
    return Listener(dial, **{"backoff": QUICK, **options})


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(BOUND):
        while not is_so():  # noqa: ASYNC110 - what is waited for lies outside, and has no event to wait on
            await asyncio.sleep(0.005)


async def send(sender: psycopg.AsyncConnection[Any], channel: str, *payloads: str) -> None:
    for payload in payloads:
        statement = notify(channel, payload)
        await sender.execute(statement.text, statement.params)
