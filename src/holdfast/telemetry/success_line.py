"""The line of an attempt that succeeded: the one that comes with every job."""

import logging
from datetime import timedelta
from functools import lru_cache

from holdfast.domain.duration import compact
from holdfast.telemetry.events import AttemptEnded, AttemptFact
from holdfast.telemetry.log_lines import fact_value
from holdfast.telemetry.record_maker import RecordMaker

_EVENT = "attempt succeeded"
_MILLISECOND = timedelta(milliseconds=1)


def is_plain_success(event: AttemptEnded) -> bool:
    """Whether there is nothing to say of it but which attempt it was and how long it took."""
    return (
        event.outcome == "succeeded"
        and event.flag is None
        and event.failure is None
        and event.delay is None
        and event.waiting is None
        and event.next_step is None
    )


class SuccessLine:
    """Says with a third of the work what `say` would say of a plain success, down to the attributes of the
    record.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._records = RecordMaker(logger, logging.INFO)

    def say(self, event: AttemptEnded) -> None:
        if not self._logger.isEnabledFor(logging.INFO):
            return
        fact = event.of
        took = max(round(event.took / _MILLISECOND), 1)
        record = self._records.make("%s: %s", (_EVENT, _key_values(fact, took)))
        facts: dict[str, object] = {"event": _EVENT, "job": fact.job, "kind": fact.kind}
        if fact.step is not None:
            facts["step"] = fact.step
        facts["queue"] = fact.queue
        facts["attempt"] = fact.attempt
        facts["max_attempts"] = fact.max_attempts
        facts["run"] = fact.run
        facts["took_ms"] = took
        record.__dict__["holdfast"] = facts
        self._logger.handle(record)


def _key_values(fact: AttemptFact, took_ms: int) -> str:
    """As `key_values` writes these facts. What the jobs of a kind share is written once."""
    return (
        f"job={fact.job} {_names(fact.kind, fact.step, fact.queue)} "
        f"attempt={fact.attempt}/{fact.max_attempts} run={fact.run} took={_took(took_ms)}"
    )


@lru_cache(maxsize=1_024)
def _names(kind: str, step: str | None, queue: str) -> str:
    of_step = "" if step is None else f"step={fact_value(step)} "
    return f"kind={fact_value(kind)} {of_step}queue={fact_value(queue)}"


@lru_cache(maxsize=1_024)
def _took(milliseconds: int) -> str:
    return fact_value(compact(timedelta(milliseconds=milliseconds)))
