"""What Holdfast sets on each of its sessions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, TypeAlias

from holdfast.postgres.options import PoolSettings
from holdfast.postgres.pooler_detection import PoolerMode

Isolation: TypeAlias = Literal["read committed", "repeatable read", "serializable"]


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Behind a transaction pooler a session is not ours to change: the next client would inherit it."""

    idle_in_transaction_timeout: timedelta
    synchronous_commit: bool
    pooler: PoolerMode
    extra: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls, settings: PoolSettings, pooler: PoolerMode, extra: Mapping[str, str] | None = None
    ) -> "SessionSettings":
        return cls(
            settings.idle_in_transaction_timeout,
            settings.synchronous_commit,
            pooler,
            tuple((extra or {}).items()),
        )

    @property
    def needs_transactions(self) -> bool:
        """Whether a lone statement needs a transaction around it, to have the settings it was written for."""
        return bool(self.extra) and not self.pooler.keeps_sessions

    @property
    def prepare_threshold(self) -> int | None:
        return 5 if self.pooler.keeps_sessions else None

    @property
    def opening(self) -> bytes:
        """Sent after connecting, since pgbouncer refuses startup options."""
        return "; ".join(self._sets("set")).encode() if self.pooler.keeps_sessions else b""

    @property
    def begin(self) -> bytes:
        """Begins a transaction, in one round trip with what could not be set on the session."""
        return self.begin_at(None)

    def begin_at(self, isolation: Isolation | None) -> bytes:
        """The same at an isolation level; without one, the session's own."""
        begin = "begin" if isolation is None else f"begin isolation level {isolation}"
        sets = () if self.pooler.keeps_sessions else self._sets("set local")
        return "; ".join((begin, *sets)).encode()

    def _sets(self, verb: str) -> tuple[str, ...]:
        idle = self.idle_in_transaction_timeout // timedelta(milliseconds=1)
        extra = (f"{verb} {name} = {value}" for name, value in self.extra)
        sets = (f"{verb} idle_in_transaction_session_timeout = {idle}", *extra)
        return sets if self.synchronous_commit else (*sets, f"{verb} synchronous_commit = off")
