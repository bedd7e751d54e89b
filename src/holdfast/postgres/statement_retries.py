"""Decides whether a statement that failed is sent again, and after which wait."""

import random
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any

import psycopg

from holdfast.domain.backoff import Exponential
from holdfast.postgres.sqlstate import Meaning, ServerFailure
from holdfast.postgres.statement import Statement
from holdfast.postgres.translate import meaning, translate

_SENT_AGAIN = (Meaning.TRANSIENT, Meaning.CONFLICT)
_BACKOFF = Exponential(timedelta(milliseconds=20), factor=4, cap=timedelta(seconds=2), jitter=0.5)


@dataclass(frozen=True, slots=True)
class Repeats:
    """At most `tries` in all. From the third on they must begin `within` a time of the first, so that one
    long wait for a reply that never came still leaves a second try.
    """

    tries: int = 5
    within: timedelta = timedelta(seconds=10)
    backoff: Exponential = _BACKOFF

    def wait(
        self, failure: ServerFailure, *, is_repeatable: bool, tried: int, elapsed: timedelta, luck: float
    ) -> timedelta | None:
        """How long to wait before the next try; `None` if the failure is final.

        Whatever the server refused or rolled back did not happen, so it may be sent again. What may have
        happened is sent again only if its author promised that twice is once.
        """
        is_late = tried > 1 and elapsed >= self.within
        if failure.meaning not in _SENT_AGAIN or tried >= self.tries or is_late:
            return None
        if failure.is_outcome_unknown and not is_repeatable:
            return None
        return self.backoff.delay(tried, luck)


@dataclass(slots=True)
class Tries:
    """The tries of one statement."""

    statement: Statement[Any]
    repeats: Repeats = Repeats()
    tried: int = 0
    began: float = field(default_factory=monotonic)

    def wait_after(self, error: psycopg.Error) -> float:
        """How many seconds to wait before the next try. Raises what the error means if it is final."""
        self.tried += 1
        wait = self.repeats.wait(
            meaning(error),
            is_repeatable=self.statement.is_repeatable,
            tried=self.tried,
            elapsed=timedelta(seconds=monotonic() - self.began),
            luck=random.random(),  # noqa: S311  # spreads load, keeps no secret
        )
        if wait is None:
            raise translate(error, self.statement.name, self.statement.schema) from error
        return wait.total_seconds()
