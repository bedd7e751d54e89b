"""The `BatchContext` of a handler that is called for many jobs at once."""

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.postgres.session_settings import Isolation
from holdfast.worker.batch_run import BatchRun
from holdfast.worker.claimed_run import ClaimedRun
from holdfast.worker.context import Context, check_isolation
from holdfast.worker.current_run import log_of

if TYPE_CHECKING:
    from holdfast.worker.completion import Completion


class BatchContext:
    """Passed to the handler of a batch if its first parameter is annotated with it. `runs` has the `Context`
    of each job, in the order of the handler's list.
    """

    def __init__(
        self,
        batch: BatchRun,
        runs: Sequence[Context],
        complete: Callable[[ClaimedRun, Any, Isolation | None], "Completion"],
    ) -> None:
        self.runs = tuple(runs)
        self._batch = batch
        self._complete = complete

    @cached_property
    def log(self) -> "logging.LoggerAdapter[logging.Logger]":
        """A logger whose records say of how many jobs they are, and the lowest and highest id."""
        return log_of(self._batch)

    @property
    def is_cancelled(self) -> bool:
        """Whether the call should stop: none of its jobs is to go on. For plain functions, which nothing can
        interrupt. `ctx.runs[i].is_cancelled` tells it of one job.
        """
        is_told = self._batch.stop is not None
        if is_told:
            for member in self._batch.members:
                member.has_seen_stop = True
        return is_told

    def fail(self, place: int, error: BaseException) -> None:
        """The job at this place of the list fails with this error, and the others go on: what
        `raise BatchFailed({place: error})` does at the end. ctx.transaction() leaves it out.
        """
        self._batch.fail(place, error)

    def transaction(self, connection: object = None, *, isolation: Isolation | None = None) -> "Completion":
        """A transaction that completes all jobs of the batch with the writes in it, or none: all that
        `ctx.fail` has not named. Used like that of a `Context`. Raises LeaseLost, and writes nothing, if one
        of these jobs was taken away.
        """
        if isolation is not None:
            check_isolation(isolation, connection)
        return self._complete(self._batch, connection, isolation)
