"""The face of Holdfast: an App knows its kinds of jobs, writes jobs, and runs workers."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Unpack, cast, overload

from holdfast.codec.signature import Signature
from holdfast.connections import Connections
from holdfast.domain.duration import duration
from holdfast.domain.job import Policy, check_ids, is_whole
from holdfast.domain.retry import Retry
from holdfast.domain.timing import read_timing
from holdfast.errors import InvalidInput
from holdfast.flows.flow import Flow
from holdfast.flows.machine import Machine
from holdfast.flows.machine_steps import MachineSignature
from holdfast.flows.operators import FlowOperators
from holdfast.flows.wiring import callers_for, chores_for, payload_text
from holdfast.handle import Handle
from holdfast.job import Call, Job, Options
from holdfast.operating import DeadOperators, QueueOperators
from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.conversation import hold, hold_blocking
from holdfast.postgres.options import PoolOptions
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.running import run_until_stopped, worker_running
from holdfast.schedules import planner
from holdfast.schedules.declared import Declared, Declarer
from holdfast.schedules.face import Schedules
from holdfast.schedules.options import RuleOptions, rules_of
from holdfast.schedules.scopes import Source
from holdfast.storage.flows import emit
from holdfast.storage.jobs import Enqueued, OnConflict, enqueue_many
from holdfast.storage.operators import cancel
from holdfast.storage.schedules import HISTORY
from holdfast.telemetry.events import Reader
from holdfast.worker.context import Context
from holdfast.worker.extras import Extras
from holdfast.worker.kind import ErrorHook, Hook, Hooks, Kind, Style
from holdfast.worker.notifier import wishes
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes.reference import Reference
from holdfast.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
J = TypeVar("J", bound=Job[..., Any])
M = TypeVar("M", bound=type[Machine[Any]])

Length = str | timedelta


class JobMaker:
    """`@app.job(…)` before it meets its function."""

    def __init__(self, make: Callable[[Callable[..., Any]], Job[..., Any]]) -> None:
        self._make = make

    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], Awaitable[R]]) -> Job[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R]) -> Job[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]]) -> Job[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R]) -> Job[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Job[..., Any]:
        return self._make(function)


class FlowMaker:
    """`@app.flow(…)` before it meets its function."""

    def __init__(self, make: Callable[[Callable[..., Any]], Job[..., Any]]) -> None:
        self._make = make

    def __call__(self, function: Callable[Concatenate[Flow, P], Awaitable[R]]) -> Job[P, R]:
        job: Job[P, R] = cast("Any", self._make(function))
        return job


class App:
    """`App()` takes HOLDFAST_DSN, `App("postgresql://…")` a server, `App("embedded")` a private one.

    Nothing is opened before the first use. `async with app:` closes what was opened.
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = "holdfast",
        pool: PoolOptions | None = None,
        on_start: Hook | None = None,
        on_success: Hook | None = None,
        on_failure: ErrorHook | None = None,
        on_dead: ErrorHook | None = None,
        on_lease_lost: Hook | None = None,
        readers: Sequence[Reader] = (),
    ) -> None:
        self.schema = Schema(schema)
        self.kinds: dict[str, Kind] = {}
        self.readers = tuple(readers)
        self._hooks = Hooks(on_start, on_success, on_failure, on_dead, on_lease_lost)
        self._connections = Connections(dsn, self.schema, pool or PoolOptions())
        self.declared: dict[str, Declared] = {}
        self.flows = FlowOperators(
            self.schema,
            self._connections,
            lambda: [kind.name for kind in self.kinds.values() if kind.style in ("flow", "machine")],
        )
        self.queues = QueueOperators(self.schema, self._connections)
        self.dead = DeadOperators(self.schema, self._connections)
        self.schedules = Schedules(self.schema, self._connections, lambda call: self._batch([call]))

    @overload
    def job(self, function: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Job[P, R]: ...
    @overload
    def job(self, function: Callable[Concatenate[Context, P], R], /) -> Job[P, R]: ...
    @overload
    def job(self, function: Callable[P, Awaitable[R]], /) -> Job[P, R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> Job[P, R]: ...
    @overload
    def job(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 5,
        retry: Retry | None = None,
        timeout: Length | None = None,
        keep: Length | None = None,
        tags: Sequence[str] = (),
        on_lost: Literal["retry", "fail"] = "retry",
        isolate: Literal["process"] | None = None,
        memory_limit: int | None = None,
        on_start: Hook | None = None,
        on_success: Hook | None = None,
        on_failure: ErrorHook | None = None,
        on_dead: ErrorHook | None = None,
        on_lease_lost: Hook | None = None,
    ) -> JobMaker: ...
    def job(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 5,
        retry: Retry | None = None,
        timeout: Length | None = None,
        keep: Length | None = None,
        tags: Sequence[str] = (),
        on_lost: Literal["retry", "fail"] = "retry",
        isolate: Literal["process"] | None = None,
        memory_limit: int | None = None,
        on_start: Hook | None = None,
        on_success: Hook | None = None,
        on_failure: ErrorHook | None = None,
        on_dead: ErrorHook | None = None,
        on_lease_lost: Hook | None = None,
    ) -> JobMaker | Job[..., Any]:
        """Make a function a kind of job: `@app.job`, or `@app.job(queue="mail", timeout="30s")`."""
        asked = Options(priority=priority, queue=queue, tags=tags, retry=retry, timeout=timeout, keep=keep)
        hooks = Hooks(on_start, on_success, on_failure, on_dead, on_lease_lost).over(self._hooks)

        def make(function: Callable[..., Any]) -> Job[..., Any]:
            signature = Signature.of(function, context=Context)
            policy = asked.policy(Policy(signature.name if name is None else name, on_lost=on_lost))
            style = _style(function, isolate, memory_limit)
            return self._add(Kind(policy, function, signature, retry or Retry(), style, memory_limit, hooks))

        return JobMaker(make) if function is None else make(function)

    @overload
    def flow(self, function: Callable[Concatenate[Flow, P], Awaitable[R]], /) -> Job[P, R]: ...
    @overload
    def flow(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 5,
        retry: Retry | None = None,
        timeout: Length | None = None,
        keep: Length | None = None,
        tags: Sequence[str] = (),
        on_start: Hook | None = None,
        on_success: Hook | None = None,
        on_failure: ErrorHook | None = None,
        on_dead: ErrorHook | None = None,
        on_lease_lost: Hook | None = None,
    ) -> FlowMaker: ...
    def flow(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 5,
        retry: Retry | None = None,
        timeout: Length | None = None,
        keep: Length | None = None,
        tags: Sequence[str] = (),
        on_start: Hook | None = None,
        on_success: Hook | None = None,
        on_failure: ErrorHook | None = None,
        on_dead: ErrorHook | None = None,
        on_lease_lost: Hook | None = None,
    ) -> FlowMaker | Job[..., Any]:
        """Make a coroutine function a flow: a job that resumes where it stopped. Takes what `app.job` takes;
        `retry` and `timeout` are of a run, from one wait to the next.
        """
        asked = Options(priority=priority, queue=queue, tags=tags, retry=retry, timeout=timeout, keep=keep)
        hooks = Hooks(on_start, on_success, on_failure, on_dead, on_lease_lost).over(self._hooks)

        def make(function: Callable[..., Any]) -> Job[..., Any]:
            if not inspect.iscoroutinefunction(function):
                raise InvalidInput(f"{_place(function)} cannot be a flow: define it with async def")
            signature = Signature.of(function, context=Flow)
            policy = asked.policy(Policy(signature.name if name is None else name))
            return self._add(Kind(policy, function, signature, retry or Retry(), "flow", None, hooks))

        return FlowMaker(make) if function is None else make(function)

    @overload
    def machine(self, machine: M, /) -> M: ...
    @overload
    def machine(
        self,
        machine: None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 5,
        retry: Retry | None = None,
        timeout: Length | None = None,
        keep: Length | None = None,
        tags: Sequence[str] = (),
        on_start: Hook | None = None,
        on_success: Hook | None = None,
        on_failure: ErrorHook | None = None,
        on_dead: ErrorHook | None = None,
        on_lease_lost: Hook | None = None,
    ) -> Callable[[M], M]: ...
    def machine(
        self,
        machine: M | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: int = 5,
        retry: Retry | None = None,
        timeout: Length | None = None,
        keep: Length | None = None,
        tags: Sequence[str] = (),
        on_start: Hook | None = None,
        on_success: Hook | None = None,
        on_failure: ErrorHook | None = None,
        on_dead: ErrorHook | None = None,
        on_lease_lost: Hook | None = None,
    ) -> Callable[[M], M] | M:
        """Make a Machine a kind of job: `@app.machine`, or `@app.machine(queue="imports")`. Takes what
        `app.flow` takes; `retry` and `timeout` are of a step that has none of its own.
        """
        asked = Options(priority=priority, queue=queue, tags=tags, retry=retry, timeout=timeout, keep=keep)
        hooks = Hooks(on_start, on_success, on_failure, on_dead, on_lease_lost).over(self._hooks)

        def make(machine: M) -> M:
            signature = MachineSignature(machine)
            policy = asked.policy(Policy(signature.name if name is None else name))
            machine._job = self._add(  # noqa: SLF001  # its face
                Kind(policy, machine, signature, retry or Retry(), "machine", None, hooks)
            )
            return machine

        return make if machine is None else make(machine)

    def _add(self, kind: Kind) -> Job[..., Any]:
        if kind.name in self.kinds:
            known = self.kinds[kind.name].function
            raise InvalidInput(
                f'two jobs are called "{kind.name}": {_place(known)} and {_place(kind.function)}; '
                "give one of them name=…"
            )
        self.kinds[kind.name] = kind
        return Job(self, kind)

    def schedule(
        self,
        cron: str | None = None,
        /,
        *,
        tz: str | None = None,
        every: Length | None = None,
        at: datetime | None = None,
        name: str | None = None,
        args: Mapping[str, Any] | None = None,
        scopes: Source | None = None,
        history: Length = HISTORY,
        **rules: Unpack[RuleOptions],
    ) -> Callable[[J], J]:
        """Fire a job at times: `@app.schedule("0 9 * * mon-fri", tz="Europe/Oslo")` above its `@app.job`.

        name: the job's, unless given. args: for the job. scopes: a list, an async function or a query; it
        fires for each of them. The job stays what it is.
        """
        timing = read_timing(cron=cron, tz=tz, every=every, at=at)
        chosen = rules_of(rules)
        kept = duration(history, name="history")

        def declare(job: J) -> J:
            if not isinstance(job, Job) or self.kinds.get(job.name) is not job.kind:
                raise InvalidInput(f"{job!r} is no job of this app: @app.schedule goes above @app.job")
            called = job.name if name is None else name
            if called in self.declared:
                raise InvalidInput(f'two schedules are called "{called}": give one of them name=…')
            self.declared[called] = Declared(
                name=called,
                kind=job.kind,
                timing=timing,
                rules=chosen,
                args=args,
                history=kept,
                scopes=scopes,
            )
            return job

        return declare

    def check(self) -> None:
        """Resolve every annotation, and find what child processes must find. Called when a worker starts;
        worth a line in your own tests.
        """
        for kind in self.kinds.values():
            kind.signature.resolve()
            if kind.style == "flow" and not kind.signature.takes_context:
                raise InvalidInput(
                    f"{_place(kind.function)} is a flow: take it as the first parameter, annotated Flow"
                )
            if kind.style == "process":
                Reference.of(kind.function)
        for declared in self.declared.values():
            declared.new()

    async def enqueue_many(self, calls: Iterable[Call[Any]], *, conn: object = None) -> list[Handle[Any]]:
        """Write any number of jobs, of any kinds, all or none; on `conn`'s transaction if one is given."""
        batch = self._batch(calls)
        conversation = enqueue_many(
            self.schema,
            (call.job for call in batch),
            on_conflict=_one_way(batch),
            notify=conn is not None,
        )
        if conn is not None:
            rows = await hold(conversation, lambda statement: run_on(conn, statement))
        else:
            here = await self._connections.opened()
            async with here.database.transaction() as transaction:
                rows = await hold(conversation, transaction.run)
            here.notifier.tell(wishes(call.job for call in batch))
        return self._handles(batch, rows)

    def enqueue_many_sync(self, calls: Iterable[Call[Any]], *, conn: object = None) -> list[Handle[Any]]:
        """The same, blocking."""
        batch = self._batch(calls)
        conversation = enqueue_many(
            self.schema,
            (call.job for call in batch),
            on_conflict=_one_way(batch),
            notify=conn is not None,
        )
        if conn is not None:
            rows = hold_blocking(conversation, lambda statement: run_on_blocking(conn, statement))
        else:
            here = self._connections.opened_blocking()
            with here.database.transaction() as transaction:
                rows = hold_blocking(conversation, transaction.run)
            here.notifier.tell(wishes(call.job for call in batch))
        return self._handles(batch, rows)

    def _batch(self, calls: Iterable[Call[Any]]) -> list[Call[Any]]:
        """As a list, and sure to be of this app: another app's jobs may belong into another database."""
        batch = list(calls)
        for call in batch:
            if type(call) is not Call or self.kinds.get(call.kind.name) is not call.kind:
                raise InvalidInput(f"{call!r} is no call of this app's jobs: give [job.call(…), …]")
        return batch

    async def _enqueue(self, call: Call[R], conn: object) -> Handle[R]:
        if conn is not None or call.on_conflict != "existing":
            return (await self.enqueue_many([call], conn=conn))[0]
        here = await self._connections.opened()
        row = await here.enqueuer.put(call.job)
        return self._handles([call], [row])[0]

    def _enqueue_sync(self, call: Call[R], conn: object) -> Handle[R]:
        if conn is not None or call.on_conflict != "existing":
            return self.enqueue_many_sync([call], conn=conn)[0]
        here = self._connections.opened_blocking()
        is_told = here.notifier.may_ride()
        rows = hold_blocking(enqueue_many(self.schema, (call.job,), notify=is_told), here.database.run)
        if not is_told:
            here.notifier.tell(wishes((call.job,)))
        return self._handles([call], rows)[0]

    def _handles(self, calls: Sequence[Call[Any]], rows: list[Enqueued]) -> list[Handle[Any]]:
        return [
            Handle(self, call.kind.signature, row.job, is_new=row.is_new)
            for call, row in zip(calls, rows, strict=True)
        ]

    def handle(self, job: int) -> Handle[Any]:
        """A handle on any job that is known by its id; its result is plain JSON. `job.handle` is typed."""
        check_ids([job])
        return Handle(self, None, job, is_new=False)

    async def run(self, statement: Statement[T]) -> list[T]:
        """Run a statement of `holdfast.storage` on this app's connections."""
        return await (await self._connections.opened()).database.run(statement)

    def run_sync(self, statement: Statement[T]) -> list[T]:
        """The same, blocking."""
        return self._connections.opened_blocking().database.run(statement)

    async def cancel(self, jobs: Sequence[int], *, reason: str = "cancelled on request") -> dict[int, str]:
        """End what waits, ask what runs to end: cancelled, requested, final, unknown or busy."""
        database = (await self._connections.opened()).database
        return await hold(cancel(self.schema, jobs, reason=reason), database.run)

    def cancel_sync(self, jobs: Sequence[int], *, reason: str = "cancelled on request") -> dict[int, str]:
        """The same, blocking."""
        database = self._connections.opened_blocking().database
        return hold_blocking(cancel(self.schema, jobs, reason=reason), database.run)

    async def emit(
        self, event: str, payload: object = None, *, conn: object = None, keep: Length = "30 days"
    ) -> None:
        """Tell flows that something has happened: those that wait for this event go on, or the first that
        asks for it within `keep`. On `conn`'s transaction if one is given.
        """
        statement = self._emit(event, payload, keep)
        if conn is not None:
            await run_on(conn, statement)
        else:
            await (await self._connections.opened()).database.run(statement)

    def emit_sync(
        self, event: str, payload: object = None, *, conn: object = None, keep: Length = "30 days"
    ) -> None:
        """The same, blocking."""
        statement = self._emit(event, payload, keep)
        if conn is not None:
            run_on_blocking(conn, statement)
        else:
            self._connections.opened_blocking().database.run(statement)

    def _emit(self, event: str, payload: object, keep: Length) -> Statement[int]:
        events = [(event, payload_text(event, payload))]
        return emit(self.schema, events, notify=True, keep=duration(keep, name="keep"))

    async def run_worker(
        self,
        *,
        queues: Mapping[str, int] | None = None,
        grace: Length | None = None,
        options: WorkerOptions | None = None,
    ) -> None:
        """Run jobs until SIGTERM or SIGINT: the first drains, the second stops at once.

        `queues`: how many jobs of each may run at once, by default 100 of every queue that this app's jobs
        name. `grace`: how long they may go on when told to stop, by default "30s". Or `options` for all.
        """
        _check_said_once(queues, grace, options)
        await run_until_stopped(await self._worker(queues, grace, options))

    @asynccontextmanager
    async def worker(
        self,
        *,
        queues: Mapping[str, int] | None = None,
        grace: Length | None = None,
        options: WorkerOptions | None = None,
    ) -> AsyncIterator[Worker]:
        """A worker beside something else, such as in a web app's lifespan; drained when the block ends."""
        _check_said_once(queues, grace, options)
        async with worker_running(await self._worker(queues, grace, options)) as worker:
            yield worker

    async def _worker(
        self, queues: Mapping[str, int] | None, grace: Length | None, options: WorkerOptions | None
    ) -> Worker:
        import asyncio

        from holdfast import __version__
        from holdfast.telemetry.events import Emitter
        from holdfast.telemetry.log import log_event

        self.check()
        if not self.kinds:
            raise InvalidInput(
                "this app has no jobs: decorate a function with @app.job, and import its module"
            )
        return Worker(
            await asyncio.to_thread(self._connections.dsn),
            self.kinds,
            self._worker_options(queues, grace) if options is None else options,
            schema=self.schema,
            emitter=Emitter(log_event, *self.readers),
            version=__version__,
            extras=self._extras(),
        )

    def _extras(self) -> Extras:
        """What schedules and flows need of a worker: every leader plans and wakes all of them, each process
        declares its own schedules.
        """
        declared = tuple(self.declared.values())
        return Extras(
            chores=lambda database, emitter: [
                *planner.chores(database, self.schema, emitter),
                *chores_for(self.schema, database, emitter),
            ],
            services=lambda database, handlers, emitter: (
                [Declarer(database, handlers, self.schema, emitter, declared)] if declared else []
            ),
            callers=lambda connections, threads: callers_for(self.schema, connections, threads),
        )

    def _worker_options(self, queues: Mapping[str, int] | None, grace: Length | None) -> WorkerOptions:
        own = {kind.policy.queue: 100 for kind in self.kinds.values()}
        return WorkerOptions(
            queues=own if queues is None else queues,
            grace=duration("30s" if grace is None else grace, name="grace"),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections of this event loop; the private server ends with its last user."""
        await self._connections.close()

    def close_sync(self) -> None:
        """The same for a program without an event loop."""
        self._connections.close_blocking()


def _place(function: Callable[..., Any]) -> str:
    """Where a reader finds it; a partial, or an object that can be called, shows itself."""
    name = getattr(function, "__qualname__", None)
    return f"{function.__module__}.{name}" if name else repr(function)


def _style(function: Callable[..., Any], isolate: str | None, memory_limit: int | None) -> Style:
    if isolate not in (None, "process"):
        raise InvalidInput(f'isolate is {isolate!r}: give "process", or leave it out')
    if memory_limit is not None and isolate != "process":
        raise InvalidInput('memory_limit needs isolate="process": only a child process can be limited')
    if memory_limit is not None and (not is_whole(memory_limit) or memory_limit < 1):
        raise InvalidInput(f"memory_limit is {memory_limit!r}: give a number of bytes, such as 512 * 2**20")
    if isolate == "process":
        return "process"
    called = getattr(function, "__call__", None)  # noqa: B004  # an object's own may be a coroutine function
    is_awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
    return "coroutine" if is_awaited else "thread"


def _check_said_once(queues: object, grace: object, options: object) -> None:
    if options is not None and (queues is not None or grace is not None):
        raise InvalidInput("queues and grace are part of WorkerOptions: give them there, or give no options")


def _one_way(calls: Sequence[Call[Any]]) -> OnConflict:
    ways: set[OnConflict] = {call.on_conflict for call in calls if call.job.unique_key is not None}
    if len(ways) > 1:
        raise InvalidInput(f"one call has one on_conflict, these have {', '.join(sorted(ways))}")
    return next(iter(ways), "existing")
