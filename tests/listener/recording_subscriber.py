"""What the tests of the Listener share: a subscriber that remembers, and waits that have a bound."""

import asyncio
import logging
from datetime import timedelta
from typing import Any

import psycopg

from holdfast.domain.backoff import Exponential
from holdfast.postgres.listener import Listener
from holdfast.postgres.listener_health import ListenerHealth
from holdfast.postgres.notification import Gap, Notified, notify
from holdfast.postgres.subscriptions import Subscription
from support.waiting import until

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
        await until(lambda: self.payloads == list(payloads))


class Dialer:
    """Opens the listener's connections, and remembers them."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.tries = 0
        self.dialled: list[psycopg.AsyncConnection[Any]] = []

    async def __call__(self) -> psycopg.AsyncConnection[Any]:
        self.tries += 1
        connection = await psycopg.AsyncConnection.connect(self.dsn)
        self.dialled.append(connection)
        return connection


class Said(logging.Handler):
    """The lines that were logged, and how the listener stood at each of them."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []
        self.listener: Listener | None = None
        self.health: list[ListenerHealth] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {record.getMessage()}")
        if self.listener is not None:
            self.health.append(self.listener.health)

    @property
    def losses(self) -> list[str]:
        return [line for line in self.lines if line.startswith("WARNING wake-ups are missing")]

    @property
    def recoveries(self) -> list[str]:
        return [line for line in self.lines if line.startswith("WARNING wake-ups are back")]


def a_listener(dial: Dialer | str, **options: Any) -> Listener:
    dial = Dialer(dial) if isinstance(dial, str) else dial
    return Listener(dial, **{"backoff": QUICK, **options})


async def ready(*subscriptions: Subscription) -> None:
    async with asyncio.timeout(BOUND):
        for subscription in subscriptions:
            await subscription.ready()


async def send(sender: psycopg.AsyncConnection[Any], channel: str, *payloads: str) -> None:
    for payload in payloads:
        statement = notify(channel, payload)
        await sender.execute(statement.text, statement.params)
