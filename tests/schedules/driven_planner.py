"""Schedules driven from a test: an app on a fresh database, a planner whose passes the test calls, and a look
at the tables.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.schedules.planner import Planner
from holdfast.storage.session import SETTINGS
from holdfast.telemetry.events import Emitter, Event

SCHEMA = Schema()
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Books:
    """Reads the tables of schedules and plans."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def rows(self, text: str, *params: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            cursor = connection.execute(text, params)
            return cursor.fetchall() if cursor.description else []

    def value(self, text: str, *params: Any) -> Any:
        [(value,)] = self.rows(text, *params)
        return value

    def plans(self, schedule: str) -> list[tuple[str, datetime, str, str | None, int]]:
        """Scope, plan time, decision, reason and count, in the order of time."""
        return self.rows(
            "select scope, plan_time, decision, reason, count from holdfast.plan where schedule = %s"
            " order by plan_time, scope",
            schedule,
        )

    def jobs(self) -> int:
        return int(self.value("select count(*) from holdfast.job"))

    def look_back(self, schedule: str, length: timedelta) -> None:
        """As if the schedule had been there that long, without a planner."""
        self.rows(
            "update holdfast.schedule_scope set since_at = since_at - %s, next_at = now()"
            " where schedule = %s",
            length,
            schedule,
        )

    def age(self, schedule: str, length: timedelta) -> None:
        """As if all of it had happened that much earlier, plans and jobs included."""
        self.look_back(schedule, length)
        self.rows(
            "update holdfast.schedule_scope set last_plan_at = last_plan_at - %s where schedule = %s",
            length,
            schedule,
        )
        self.rows("update holdfast.plan set plan_time = plan_time - %s where schedule = %s", length, schedule)
        self.rows("update holdfast.job set created_at = created_at - %s", length)


class Heard:
    """Keeps the events that were emitted."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def planner_on(dsn: str, heard: Heard | None = None) -> AsyncIterator[Planner]:
    """A planner on a connection like the leader's."""
    heard = heard or Heard()
    async with Database(dsn, session=SETTINGS) as database:
        yield Planner(database, SCHEMA, Emitter(heard.events.append))
