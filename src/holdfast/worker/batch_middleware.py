"""Middleware around the call of a batch: it is entered once for each job, with the job's own context, and is
left with what that job met.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack
from types import TracebackType
from typing import Any

from holdfast.worker.batch_outcome import checked, error_at
from holdfast.worker.batch_run import BatchMember, BatchRun
from holdfast.worker.context import Context
from holdfast.worker.middleware import enter


class BatchMiddleware:
    """Entered from the last job to the first, so that the first one's is innermost: what the handler itself
    traces belongs to that job.
    """

    def __init__(self, batch: BatchRun) -> None:
        self._batch = batch
        self._entered: dict[int, AsyncExitStack] = {}
        self._inside: dict[int, list[AbstractContextManager[Any]]] = {}

    async def around(
        self,
        contexts: Mapping[int, Context],
        refused: Callable[[BatchMember, BaseException], Awaitable[None]],
        call: Callable[[], Awaitable[Any]],
    ) -> Any:
        """Call the handler inside of all of them. A job whose middleware raises before the call is `refused`,
        and takes no part in it.
        """
        error: BaseException | None = None
        try:
            for member in reversed(self._batch.members):
                if (problem := await self._enter(member, contexts[member.run])) is not None:
                    await refused(member, problem)
            if self._inside:
                self._batch.inside = (_InThread(self._batch, self._inside),)
            return await call()
        except BaseException as raised:
            error = checked(self._batch, raised)
            raise
        finally:
            for place, member in enumerate(self._batch.members):
                if stack := self._entered.get(member.run):
                    self._batch.ends[place] = await _left(stack, error_at(self._batch, place, error))

    async def _enter(self, member: BatchMember, context: Context) -> BaseException | None:
        stack = self._entered[member.run] = AsyncExitStack()
        try:
            for one in member.kind.middleware.running:
                manager = one.running(context)
                if isinstance(manager, AbstractContextManager) and member.kind.style == "thread":
                    self._inside.setdefault(member.run, []).append(manager)
                else:
                    await enter(stack, manager)
        except Exception as error:  # noqa: BLE001  # the user's code; it fails its own job
            del self._entered[member.run]
            return await _left(stack, error) or error
        return None


class _InThread(AbstractContextManager[None]):
    """Plain managers around a plain function, in its own thread, where they may block."""

    def __init__(self, batch: BatchRun, inside: Mapping[int, list[AbstractContextManager[Any]]]) -> None:
        self._batch = batch
        self._inside = inside
        self._stacks: dict[int, ExitStack] = {}

    def __enter__(self) -> None:
        for place, member in reversed(list(enumerate(self._batch.members))):
            stack = self._stacks[place] = ExitStack()
            try:
                for manager in self._inside.get(member.run, ()):
                    stack.enter_context(manager)
            except BaseException as error:
                self.__exit__(type(error), error, error.__traceback__)
                raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in sorted(self._stacks):
            own = error_at(self._batch, place, error)
            try:
                is_swallowed = self._stacks[place].__exit__(type(own) if own else None, own, _trace(own))
            except BaseException as worse:  # noqa: BLE001  # the user's code; it fails its own job
                self._batch.ends[place] = worse
            else:
                self._batch.ends[place] = None if is_swallowed else own


async def _left(stack: AsyncExitStack, error: BaseException | None) -> BaseException | None:
    """What is left of the error when all managers have seen it."""
    try:
        is_swallowed = await stack.__aexit__(type(error) if error else None, error, _trace(error))
    except BaseException as worse:  # noqa: BLE001  # the user's code; it fails its own job
        return worse
    return None if is_swallowed else error


def _trace(error: BaseException | None) -> TracebackType | None:
    return error.__traceback__ if error else None
