"""Calls a flow: reads what it has done, replays its function, and decides how the run ended."""

import asyncio
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.domain.fingerprint import identified
from holdfast.domain.flow_path import Path
from holdfast.domain.outcome import Failed, Unreadable
from holdfast.errors import ChildFailed, EventTimeout, FlowDiverged, InvalidInput, LeaseLost, StepFailed
from holdfast.flows.code_fingerprint import fingerprint
from holdfast.flows.flow import Flow
from holdfast.flows.recorder import Recorder
from holdfast.flows.replay import Replay
from holdfast.flows.step_runner import StepRunner, failure_of
from holdfast.flows.step_values import StoredUndecodable, Unkeepable
from holdfast.flows.suspension import Suspended, end_in
from holdfast.postgres.database import Database
from holdfast.worker.claimed_run import ClaimedRun, CommittedEnd
from holdfast.worker.context import Context
from holdfast.worker.failure_from_error import from_error
from holdfast.worker.handler_requests import EndWith, Snooze
from holdfast.worker.job_kind import Kind
from holdfast.worker.job_threads import JobThreads
from holdfast.worker.middleware import step_within
from holdfast.worker.processes import Processes


class FlowCaller:
    """A Caller like those for coroutines and threads."""

    def __init__(
        self, recorder: Recorder, handlers: Database, threads: JobThreads, processes: Processes
    ) -> None:
        self._recorder = recorder
        self._handlers = handlers
        self._threads = threads
        self._processes = processes
        self._steps: dict[int, StepRunner] = {}
        self._codes: dict[str, int] = {}

    async def call(self, claimed: ClaimedRun, context: Context, arguments: dict[str, Any]) -> Any:
        isolated = partial(self._processes.call_function, claimed, context)
        around = claimed.kind.middleware.stepping
        steps = self._steps[claimed.run] = StepRunner(
            self._threads,
            claimed.check_lease,
            isolated,
            partial(step_within, around, context) if around else None,
        )
        try:
            return await self._replay(claimed, context, steps, arguments)
        except BaseException as error:
            end = end_in(error)
            if isinstance(end, Suspended) and end.is_settled:
                # The attempt has ended by our own commit; what it came to is in the ledger.
                claimed.committed = CommittedEnd(end.outcome, waiting=end.waiting, failure=end.failure)
                return None
            if end is not None:
                request = Snooze(timedelta()) if isinstance(end, Suspended) else end.request
                raise request from error
            raise _judged(claimed, error) from error

    def left_behind(self, claimed: ClaimedRun) -> Future[Any] | None:
        return self._steps.pop(claimed.run).outlived if claimed.run in self._steps else None

    async def _replay(
        self, claimed: ClaimedRun, context: Context, steps: StepRunner, arguments: dict[str, Any]
    ) -> Any:
        code = self._code(claimed.kind)
        path = Path(await self._recorder.load(claimed.job))
        replay = Replay(claimed, self._recorder, path, code)
        flow = Flow(context, replay, steps=steps, handlers=self._handlers)
        claimed.check_lease()
        raised: BaseException | None = None
        result = None
        try:
            result = await claimed.kind.function(flow, **arguments)
        except (LeaseLost, asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if replay.end is None:
                if isinstance(error, Exception):
                    path.check()
                raise
            raised = error
        if replay.end is not None:
            raise await self._left(replay, context, replay.end, raised)
        path.end()
        return result

    async def _left(
        self, replay: Replay, context: Context, end: Suspended, raised: BaseException | None
    ) -> Suspended:
        """The function has ended after its run was suspended: as it should, or its code caught the end."""
        if not end.is_settled:
            return end
        if replay.is_end_caught(raised):
            parted = replay.path.diverged(
                f'the end of the run, which waits for "{replay.awaited}", was caught by the flow\'s own code',
                'Write "except Exception:" and not "except BaseException:" around what a flow awaits, or '
                "raise again what was caught. Then resume the flow",
            )
            failure = identified(from_error(parted, "flow_diverged"), context.job.kind)
            if await self._recorder.fail_waiting(replay.fence, failure.to_json()):
                end.outcome, end.waiting, end.failure = "failed", None, failure
            else:
                context.log.error("%s", parted)
        elif raised is not None and end_in(raised) is None:
            context.log.error(
                'raised while the flow left to wait for "%s"; the flow continues',
                replay.awaited,
                exc_info=raised,
            )
        return end

    def _code(self, kind: Kind) -> int:
        if kind.name not in self._codes:
            self._codes[kind.name] = fingerprint(kind.function)
        return self._codes[kind.name]


def _judged(claimed: ClaimedRun, error: BaseException) -> BaseException:
    """The error that the flow's own retry policy is asked about, or an `EndWith` that leaves it out: an error
    that is stored with the flow would come back in every attempt.
    """
    match error:
        case FlowDiverged():
            return EndWith(Failed(from_error(error, "flow_diverged"), is_retryable=False))
        case StoredUndecodable():
            return EndWith(Unreadable(from_error(error, "decode_error")))
        case StepFailed() if error.is_kept:
            cause = error.__cause__
            failure = failure_of(cause) if isinstance(cause, Exception) else from_error(error)
            return EndWith(Failed(failure, is_retryable=False))
        case StepFailed() if error.__cause__ is not None:
            cause = error.__cause__
            return _judged(claimed, cause) if isinstance(cause, Unkeepable) else cause
        case ChildFailed() | EventTimeout() | InvalidInput():
            return EndWith(Failed(from_error(error), is_retryable=False))
        case _:
            return error
