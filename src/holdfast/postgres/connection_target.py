"""Where a `Database` or `BlockingDatabase` connects to, and as what: the half of both that does no I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import psycopg

from holdfast.errors import ConnectionFailed
from holdfast.postgres.availability import Availability
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.options import PoolOptions, PoolSettings
from holdfast.postgres.pooler_detection import PoolerMode
from holdfast.postgres.session_settings import SessionSettings
from holdfast.postgres.translate import connection_failed


@dataclass(frozen=True, slots=True)
class ConnectionTarget:
    dsn: Dsn
    settings: PoolSettings
    purpose: str
    extra: Mapping[str, str] | None
    availability: Availability

    @classmethod
    def choose(
        cls,
        dsn: str | Dsn,
        options: PoolOptions | None,
        *,
        purpose: str,
        session: Mapping[str, str] | None,
        availability: Availability | None,
    ) -> "ConnectionTarget":
        dsn = dsn if isinstance(dsn, Dsn) else Dsn.parse(dsn)
        settings = PoolSettings.choose(options or PoolOptions(), dsn.options)
        return cls(dsn, settings, purpose, session, availability or Availability.of(dsn))

    @property
    def conninfo(self) -> str:
        return self.dsn.conninfo(self.purpose)

    def behind(self, pooler: PoolerMode) -> SessionSettings:
        """What each session is to be, now that it is known what is between us and Postgres."""
        self.availability.behind(pooler)
        return SessionSettings.of(self.settings, pooler, self.extra)

    def failed(self, error: psycopg.Error) -> ConnectionFailed:
        return connection_failed(error, self.dsn)


def dedicated(session: SessionSettings) -> SessionSettings:
    """For a connection outside the pool, which may sit in a transaction for as long as it likes."""
    return replace(session, idle_in_transaction_timeout=timedelta())
