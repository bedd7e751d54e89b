"""Which connections of a pool are believed to work, and what the failure of one says about the others."""

from time import monotonic
from typing import Final

import psycopg

from holdfast.postgres.availability import Availability
from holdfast.postgres.pooled_connection import Pooled
from holdfast.postgres.translate import NoReply, meaning, one_line

_TRUSTED_SECONDS: Final = 20.0
"""For so long an idle connection is believed to work if its socket says nothing else: asking before every
statement would cost as much as most statements.
"""


class ConnectionTrust:
    """Of one pool. Answers without asking the server."""

    def __init__(self, availability: Availability) -> None:
        self._availability = availability
        self._distrusted_until = float("-inf")

    def distrust(self) -> float:
        """Lend no connection that was opened before now. Answers with that moment."""
        self._distrusted_until = monotonic()
        return self._distrusted_until

    def is_over(self, connection: Pooled, now: float) -> bool:
        life = connection.life
        return now >= life.expires_at or life.opened_at <= self._distrusted_until or connection.closed

    def is_surely_fit(self, connection: Pooled) -> bool:
        """Known without asking. The socket is looked at last: a closed connection has none of its own."""
        now = monotonic()
        is_fresh = now - connection.life.used_at < _TRUSTED_SECONDS
        return is_fresh and not self.is_over(connection, now) and not connection.probe.is_readable()

    def failed(self, connection: Pooled, error: psycopg.Error, silent_for: float | None) -> psycopg.Error:
        """Note that something that was sent failed. Answers with the error to raise. `silent_for` is the
        bound after which the connection was cut.
        """
        reason = error if silent_for is None else NoReply(silent_for, "reply_timeout")
        failure = meaning(error)
        if failure.is_session_over:
            connection.pgconn.finish()
            self.note(connection, reason, is_general=silent_for is not None or failure.is_wrong_server)
        return reason

    def note(self, connection: Pooled, error: psycopg.Error, *, is_general: bool) -> None:
        """A connection turned out to be of no use.

        If it fell silent, others of its age most likely did, and finding out would take as long again for
        each. A session that the server ended by its own rules is not worth a line in the log.
        """
        if is_general:
            self.distrust()
        if meaning(error).is_outcome_unknown:
            self._availability.lost(one_line(error), opened_at=connection.life.opened_at)
