"""One call for all jobs of a batch. Every job is read, judged, decided and settled like any other; only the
handler is called once, in one slot.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, cast

from holdfast.codec.batch_signature import BatchSignature
from holdfast.domain.outcome import AttemptOutcome, Failed, Released, Unreadable
from holdfast.errors import Undecodable
from holdfast.postgres.session_settings import Isolation
from holdfast.worker import forked_copy
from holdfast.worker.attempt_outcome import outcome_of_error, outcome_of_result, outcome_of_stop
from holdfast.worker.attempt_reporter import AttemptReporter
from holdfast.worker.attempt_runner import AttemptRunner, told_by
from holdfast.worker.batch_context import BatchContext
from holdfast.worker.batch_middleware import BatchMiddleware
from holdfast.worker.batch_outcome import checked, is_done_all_the_same, outcome_at, results_of
from holdfast.worker.batch_run import BatchLines, BatchMember, BatchRun
from holdfast.worker.callers import Caller, come_to
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.completion import Completion
from holdfast.worker.context import Context
from holdfast.worker.current_run import current_run, log_of
from holdfast.worker.failure_from_error import from_error
from holdfast.worker.job_kind import Style
from holdfast.worker.lease import NotBegun
from holdfast.worker.log_keeper import LogKeeper
from holdfast.worker.settler import RunEnding, Settler
from holdfast.worker.slots import Slots
from holdfast.worker.stray_threads import StrayThreads

Ended = tuple[AttemptOutcome, BaseException | None]


class BatchRunner:
    """Shares with `AttemptRunner` what decides and settles one run."""

    def __init__(
        self,
        attempts: AttemptRunner,
        callers: Mapping[Style, Caller],
        settler: Settler,
        reporter: AttemptReporter,
        *,
        slots: Slots,
        stray_threads: StrayThreads,
        context: Callable[[ClaimedRun], Context],
        complete: Callable[[ClaimedRun, Any, Isolation | None], Completion],
        log_keeper: LogKeeper,
    ) -> None:
        self._attempts = attempts
        self._callers = callers
        self._settler = settler
        self._reporter = reporter
        self._slots = slots
        self._stray_threads = stray_threads
        self._context = context
        self._complete = complete
        self._log_keeper = log_keeper

    async def run(self, batch: BatchRun) -> None:
        batch.begin()
        contexts = {member.run: self._context(member) for member in batch.members}
        caller = self._callers[batch.kind.style]
        ends: list[Ended] = []
        thread: Future[Any] | None = None
        try:
            result, error = await self._called(batch, contexts, caller)
            if forked_copy.is_copy:
                forked_copy.leave(error)
            thread = caller.left_behind(batch)
            if thread is not None and batch.committed is None:
                await self._stray_threads.end(batch, thread)
            ends = _judged(batch, result, error, thread)
        except NotBegun as late:
            # The lease keeper will say this of all runs, if it has not yet. Until then nothing is settled.
            for member in batch.members:
                member.stop = Stop.LOST
            ends = [(Released(), late) for _ in batch.members]
        except Exception as ours:  # noqa: BLE001  # not the handler's, but still an end: no run must stay for ever
            ends = [(Failed(from_error(ours)), ours) for _ in batch.members]
        finally:
            self._free_slot(batch, thread)
        await self._end(batch.members, contexts, ends)
        batch.dissolve()

    async def _called(
        self, batch: BatchRun, contexts: Mapping[int, Context], caller: Caller
    ) -> tuple[Any, BaseException | None]:
        """What the handler returned or raised. Jobs that it cannot be called for have ended before."""
        items = await self._items(batch, contexts)
        current_run.set(batch)
        self._begin_members(batch)

        async def refused(member: BatchMember, error: BaseException) -> None:
            await self._end_early(batch, member, contexts, outcome_of_error(member, error), error)

        def call() -> Awaitable[Any]:
            called = [(items[member.run], contexts[member.run]) for member in batch.members]
            signature = cast("BatchSignature[Any]", batch.kind.signature)
            context = BatchContext(batch, [own for _, own in called], self._complete)
            arguments = {signature.parameter: [item for item, _ in called]}
            return caller.call(batch, cast("Context", context), arguments) if called else _nothing()

        try:
            if hook := batch.kind.hooks.on_start:
                for member in batch.members:
                    await self._reporter.call_on_start(hook, member, contexts[member.run])
                batch.check_lease()
            is_within = bool(batch.kind.middleware.running)
            result = await (BatchMiddleware(batch).around(contexts, refused, call) if is_within else call())
            if result is not None:
                result = await come_to(result)
        except NotBegun:
            raise
        except BaseException as error:  # noqa: BLE001  # whatever a handler raises ends its attempt, not the worker
            return None, checked(batch, error)
        return result, None

    async def _items(self, batch: BatchRun, contexts: Mapping[int, Context]) -> dict[int, Any]:
        """The arguments of the jobs that can be run, by run. The others end here."""
        signature = cast("BatchSignature[Any]", batch.kind.signature)
        items: dict[int, Any] = {}
        for member in list(batch.members):
            uncalled = self._attempts.uncalled(member)
            if uncalled is not None:
                batch.leave(member)
                self._settler.put(
                    RunEnding.of(member, uncalled, contexts[member.run], self._reporter.settled)
                )
                continue
            try:
                items[member.run] = signature.item(member.row.args)
            except Undecodable as error:
                misfit = Unreadable(from_error(error, "decode_error"))
                outcome = await self._attempts.with_duration(member, misfit)
                await self._end_early(batch, member, contexts, outcome, error)
        for member in [member for member in batch.members if member.stop is not None]:
            early = asyncio.CancelledError()
            await self._end_early(batch, member, contexts, outcome_of_stop(member, early), early)
        return items

    async def _end_early(
        self,
        batch: BatchRun,
        member: BatchMember,
        contexts: Mapping[int, Context],
        outcome: AttemptOutcome,
        error: BaseException,
    ) -> None:
        batch.leave(member)
        await self._end([member], contexts, [(outcome, error)])

    def _begin_members(self, batch: BatchRun) -> None:
        batch.check_lease()
        if batch.kind.keep_logs != "never":
            for member in batch.members:
                self._log_keeper.begin(member)
            batch.lines = BatchLines([member.lines for member in batch.members if member.lines is not None])
        if self._attempts.is_start_heard:
            for member in batch.members:
                self._reporter.started(member)

    async def _end(
        self, members: Sequence[BatchMember], contexts: Mapping[int, Context], ends: Sequence[Ended]
    ) -> None:
        """Hand over how each run has ended, with their log lines written first."""
        judged = [
            (member, outcome, error, self._attempts.ending(member, contexts[member.run], outcome, error))
            for member, (outcome, error) in zip(members, ends, strict=True)
        ]
        writing = [
            asyncio.ensure_future(self._log_keeper.end(member, told_by(member, ending)))
            for member, _, _, ending in judged
            if member.lines is not None
        ]
        while any(not each.done() for each in writing):
            with suppress(asyncio.CancelledError):  # a run that is told to stop meanwhile goes on to its end
                await asyncio.wait(writing)
        for member, outcome, error, ending in judged:
            told = None if member.committed is not None else error
            self._attempts.hand_over(member, contexts[member.run], ending, outcome, told)

    def _free_slot(self, batch: BatchRun, thread: "Future[Any] | None") -> None:
        if thread is None or thread.done():
            self._slots.give_back(batch.queue)
        else:
            self._stray_threads.remember(batch, thread, self._slots.give_back)


def _judged(
    batch: BatchRun, result: Any, error: BaseException | None, thread: "Future[Any] | None"
) -> list[Ended]:
    """How each run has ended, in the order of the members."""
    if batch.committed is not None and error is not None and not _is_cut_short(batch, error):
        log_of(batch).error(
            "raised after ctx.transaction() had completed the jobs; they are not retried", exc_info=error
        )
    for member in batch.members:
        member.met_outage = batch.met_outage
    is_over = thread is not None and thread.done() and not thread.cancelled() and thread.exception() is None
    late = results_of(batch, thread.result()) if thread is not None and is_over else None
    values = results_of(batch, result)
    return [
        outcome_of_result(member, late[place])
        if late is not None and is_done_all_the_same(member)
        else outcome_at(batch, place, values[place], error)
        for place, member in enumerate(batch.members)
    ]


def _is_cut_short(batch: BatchRun, error: BaseException) -> bool:
    """Whether only our waiting for the thread of a plain function has ended."""
    return isinstance(error, asyncio.CancelledError) and batch.kind.style == "thread"


async def _nothing() -> None:
    """In place of a call for no job."""
