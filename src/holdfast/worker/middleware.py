"""Middleware: the user's code around enqueues, around attempts and around steps.

Each method of a `Middleware` is a context manager. Those of the app come first, in the order given, then
those of the job, so that the app's are outside. Only methods that a class overrides cost anything.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidInput

if TYPE_CHECKING:
    from holdfast.worker.claimed_run import ClaimedRun
    from holdfast.worker.context import Context

Around = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]


@dataclass(slots=True)
class OutgoingJob:
    """A job that is about to be written. What is put into `headers` travels with it, as `ctx.headers`. `id`
    and `is_new` are known once it is written.
    """

    kind: str
    queue: str
    tags: tuple[str, ...]
    headers: dict[str, str] = field(default_factory=dict)
    id: int | None = None
    is_new: bool | None = None


class Middleware:
    """Subclass it, and override what you need with `@contextmanager` or, around attempts and steps, with
    `@asynccontextmanager`. What your code raises before its `yield` fails the enqueue or the attempt.
    """

    def enqueuing(self, jobs: Sequence[OutgoingJob]) -> AbstractContextManager[Any]:  # noqa: ARG002
        """Around one enqueue, of one job or many. It must not block for long: it runs where the caller does,
        for blocking callers and coroutines alike.
        """
        return nullcontext()

    def running(self, ctx: "Context") -> Around:  # noqa: ARG002
        """Around the handler, in each attempt. An asynchronous one runs on the worker's event loop. A plain
        one runs where the handler does: for a plain function in its thread, so that it may block there.
        """
        return nullcontext()

    def stepping(self, ctx: "Context", step: str) -> Around:  # noqa: ARG002
        """Around the function of a flow's or a machine's step, each time that it runs; on the event loop."""
        return nullcontext()


@dataclass(frozen=True, slots=True)
class Middlewares:
    """Which of them have which method, outermost first."""

    enqueuing: tuple[Middleware, ...] = ()
    running: tuple[Middleware, ...] = ()
    stepping: tuple[Middleware, ...] = ()

    @classmethod
    def of(cls, given: Iterable[Middleware]) -> "Middlewares":
        each = tuple(given)
        return cls(
            tuple(one for one in each if type(one).enqueuing is not Middleware.enqueuing),
            tuple(one for one in each if type(one).running is not Middleware.running),
            tuple(one for one in each if type(one).stepping is not Middleware.stepping),
        )


NO_MIDDLEWARE = Middlewares()


def read_middleware(given: object) -> tuple[Middleware, ...]:
    """What was passed as `middleware=`, checked."""
    if isinstance(given, Middleware) or not isinstance(given, Iterable):
        raise InvalidInput(f"middleware is {given!r}: give a list of instances of holdfast.Middleware")
    each = tuple(given)
    for one in each:
        if not isinstance(one, Middleware):
            hint = "an instance, with ()" if isinstance(one, type) else "an instance of holdfast.Middleware"
            raise InvalidInput(f"middleware has {one!r}: give {hint}")
    return each


async def run_within(claimed: "ClaimedRun", context: "Context", call: Callable[[], Awaitable[Any]]) -> Any:
    """Call the handler inside of its middleware; None if one of them swallowed its error."""
    result = None
    running, in_thread = claimed.kind.middleware.running, claimed.kind.style == "thread"
    first: Around | None = None
    if len(running) == 1 and not in_thread:  # a stack of managers takes longer than most of them
        first = running[0].running(context)
        if isinstance(first, AbstractContextManager) and not isinstance(first, AbstractAsyncContextManager):
            with first:
                result = await call()
            return result  # noqa: RET504  # unless it has swallowed an error
    inside: list[AbstractContextManager[Any]] = []
    async with AsyncExitStack() as stack:
        for one in running:
            manager = one.running(context) if first is None else first  # which may be empty, and so false
            if isinstance(manager, AbstractContextManager) and in_thread:
                inside.append(manager)
            else:
                await enter(stack, manager)
        claimed.inside = tuple(inside)
        result = await call()
    return result  # noqa: RET504  # unless one of them has swallowed an error


async def step_within(
    middlewares: Sequence[Middleware], context: "Context", step: str, run: Callable[[], Awaitable[Any]]
) -> Any:
    """The same for one step."""
    if not middlewares:
        return await run()
    result = None
    async with AsyncExitStack() as stack:
        for one in middlewares:
            await enter(stack, one.stepping(context, step))
        result = await run()
    return result  # noqa: RET504  # unless one of them has swallowed an error


async def enter(stack: AsyncExitStack, manager: Around) -> None:
    if isinstance(manager, AbstractAsyncContextManager):
        await stack.enter_async_context(manager)
    elif isinstance(manager, AbstractContextManager):
        stack.enter_context(manager)
    else:
        raise InvalidInput(
            f"a middleware gave {manager!r} and no context manager: write @contextmanager or "
            "@asynccontextmanager above its method"
        )
