"""`@app.job`, `@app.flow`, `@app.machine` and `@app.schedule`, and what a worker checks when it starts."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, cast, overload

from holdfast.codec.batch_signature import BatchSignature
from holdfast.codec.signature import Signature
from holdfast.domain.batch import Batch
from holdfast.domain.duration import Length, duration
from holdfast.domain.job import is_whole
from holdfast.domain.kept_logs import KeepLogs
from holdfast.domain.retention import HISTORY
from holdfast.domain.retry import Retry
from holdfast.domain.timing import read_timing
from holdfast.domain.uniqueness import check_names
from holdfast.errors import InvalidInput
from holdfast.flows.flow import Flow
from holdfast.flows.machine import Machine
from holdfast.flows.machine_signature import MachineSignature
from holdfast.flows.shared_limits import check_source
from holdfast.job import Job
from holdfast.kind_options import FlowOptions, JobOptions, read_options
from holdfast.limit_declarations import LimitDeclarations
from holdfast.schedules.declarer import Declared
from holdfast.schedules.options import RuleOptions, rules_of
from holdfast.schedules.scopes import Source
from holdfast.worker.batch_context import BatchContext
from holdfast.worker.context import Context
from holdfast.worker.job_kind import Hooks, Kind, Style
from holdfast.worker.middleware import Middleware
from holdfast.worker.processes.reference import Reference

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
J = TypeVar("J", bound=Job[..., Any])
M = TypeVar("M", bound=type[Machine[Any]])

# The bare interpreter takes more, on every platform. What a handler's module takes only its child can tell.
_LEAST_MEMORY = 8 * 2**20


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


class BatchMaker(Generic[P, A]):
    """`@app.job(batch=…)` before it meets its function: jobs take the arguments of an item, the function
    takes a list of items, and returns a list of results or None.
    """

    def __init__(self, make: Callable[[Callable[..., Any]], Job[..., Any]]) -> None:
        self._make = make

    @overload
    def __call__(self, function: Callable[[BatchContext, list[A]], Awaitable[None]]) -> Job[P, None]: ...
    @overload
    def __call__(self, function: Callable[[BatchContext, list[A]], Awaitable[list[R]]]) -> Job[P, R]: ...
    @overload
    def __call__(self, function: Callable[[BatchContext, list[A]], None]) -> Job[P, None]: ...
    @overload
    def __call__(self, function: Callable[[BatchContext, list[A]], list[R]]) -> Job[P, R]: ...
    @overload
    def __call__(self, function: Callable[[list[A]], Awaitable[None]]) -> Job[P, None]: ...
    @overload
    def __call__(self, function: Callable[[list[A]], Awaitable[list[R]]]) -> Job[P, R]: ...
    @overload
    def __call__(self, function: Callable[[list[A]], None]) -> Job[P, None]: ...
    @overload
    def __call__(self, function: Callable[[list[A]], list[R]]) -> Job[P, R]: ...
    def __call__(self, function: Callable[..., Any]) -> Job[P, Any]:
        job: Job[P, Any] = cast("Any", self._make(function))
        return job


class FlowMaker:
    """`@app.flow(…)` before it meets its function."""

    def __init__(self, make: Callable[[Callable[..., Any]], Job[..., Any]]) -> None:
        self._make = make

    def __call__(self, function: Callable[Concatenate[Flow, P], Awaitable[R]]) -> Job[P, R]:
        job: Job[P, R] = cast("Any", self._make(function))
        return job


class Decorators(LimitDeclarations):
    """The part of an App that declares kinds of jobs and schedules. Opens nothing."""

    def __init__(
        self,
        hooks: Hooks,
        new_job: Callable[[Kind], Job[..., Any]],
        secret_names: tuple[str, ...],
        keep_logs: KeepLogs = "never",
        middleware: Sequence[Middleware] = (),
    ) -> None:
        super().__init__()
        self.declared_kinds: dict[str, Kind] = {}
        self.declared: dict[str, Declared] = {}
        self._hooks = hooks
        self._new_job = new_job
        self._secret_names = secret_names
        self._keep_logs = keep_logs
        self._middleware = tuple(middleware)

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
        self, function: None = None, /, *, batch: Batch[P, A], **options: Unpack[JobOptions]
    ) -> BatchMaker[P, A]: ...
    @overload
    def job(self, function: None = None, /, **options: Unpack[JobOptions]) -> JobMaker: ...
    def job(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        batch: Batch[..., Any] | None = None,
        **options: Unpack[JobOptions],
    ) -> JobMaker | BatchMaker[..., Any] | Job[..., Any]:
        """Make a function a kind of job: `@app.job`, or `@app.job(queue="mail", timeout="30s")`.

        name: by default the function's. queue="default", priority=5 (0 is most urgent), tags. retry: a Retry,
        by default 20 attempts. timeout: of one attempt, by default "1h". keep: how long it is kept after its
        end, "0s" to delete it at once. unique, on_conflict, debounce, max_wait, unique_for: as in
        `job.using`, for all of its jobs. on_lost: "retry" (the default) or "fail" when its worker dies.
        isolate: "process" for a child process, memory_limit: its bytes. keep_logs: "never", "on_failure" or
        "always": whether log lines of its runs are kept with the job. limit: a Limit, one of app.limit(…),
        or two of them: how many of its jobs run at once, or start. on_start, on_success, on_failure, on_dead,
        on_lease_lost, on_expired, on_cancelled: hooks in place of the app's. middleware: a list, inside of
        the app's. batch: a Batch, for a function that takes the arguments of many jobs as a list.
        """
        asked: Mapping[str, Any] = {**options, "batch": batch}
        given = read_options(asked, JobOptions.__optional_keys__ | {"batch"}, "app.job")
        hooks = given.hooks.over(self._hooks)
        keep_logs = given.keeping_logs(self._keep_logs)
        within, unique = given.within(self._middleware), given.uniqueness

        def make(function: Callable[..., Any]) -> Job[..., Any]:
            style = _style(function, given.isolate, given.memory_limit)
            signature = self._signature(function, batch, style)
            policy = given.policy(signature.name)
            if batch is None:  # else they are those of its Batch, which a worker's start checks
                named = inspect.signature(function).parameters
                check_names(unique.unique, kind=policy.kind, parameters=named)
            return self._add(
                Kind(
                    policy,
                    function,
                    signature,
                    given.retry or Retry(),
                    style,
                    given.memory_limit,
                    hooks,
                    keep_logs,
                    within,
                    self._limits_of(given.limit, policy.kind, signature),
                    batch,
                    uniqueness=unique,
                )
            )

        if function is not None:
            return make(function)
        return JobMaker(make) if batch is None else BatchMaker(make)

    def _signature(
        self, function: Callable[..., Any], batch: Batch[..., Any] | None, style: Style
    ) -> Signature:
        if batch is None:
            return Signature.of(function, context=Context, secret_names=self._secret_names)
        if not isinstance(batch, Batch):
            raise InvalidInput(f'batch is {batch!r}: give a Batch(100, of=…, wait="200ms")')
        if style == "process":
            raise InvalidInput(
                f'{_place(function)} cannot have both batch and isolate="process": the handler of a batch '
                "runs as a coroutine or in a thread of the worker"
            )
        return BatchSignature(function, batch.of, context=BatchContext, secret_names=self._secret_names)

    @overload
    def flow(self, function: Callable[Concatenate[Flow, P], Awaitable[R]], /) -> Job[P, R]: ...
    @overload
    def flow(self, function: None = None, /, **options: Unpack[FlowOptions]) -> FlowMaker: ...
    def flow(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[FlowOptions]
    ) -> FlowMaker | Job[..., Any]:
        """Make a coroutine function a flow: a job that resumes where it stopped. Takes the options of
        `app.job` without on_lost, isolate, memory_limit and batch; `retry` and `timeout` apply to a run, from
        one wait to the next.
        """
        given = read_options(options, FlowOptions.__optional_keys__, "app.flow")
        hooks = given.hooks.over(self._hooks)
        keep_logs = given.keeping_logs(self._keep_logs)
        within, unique = given.within(self._middleware), given.uniqueness

        def make(function: Callable[..., Any]) -> Job[..., Any]:
            if not inspect.iscoroutinefunction(function):
                raise InvalidInput(f"{_place(function)} cannot be a flow: define it with async def")
            signature = Signature.of(function, context=Flow, secret_names=self._secret_names)
            policy = given.policy(signature.name)
            check_names(unique.unique, kind=policy.kind, parameters=inspect.signature(function).parameters)
            return self._add(
                Kind(
                    policy,
                    function,
                    signature,
                    given.retry or Retry(),
                    "flow",
                    None,
                    hooks,
                    keep_logs,
                    within,
                    self._limits_of(given.limit, policy.kind, signature),
                    uniqueness=unique,
                )
            )

        return FlowMaker(make) if function is None else make(function)

    @overload
    def machine(self, machine: M, /) -> M: ...
    @overload
    def machine(self, machine: None = None, /, **options: Unpack[FlowOptions]) -> Callable[[M], M]: ...
    def machine(self, machine: M | None = None, /, **options: Unpack[FlowOptions]) -> Callable[[M], M] | M:
        """Make a Machine a kind of job: `@app.machine`, or `@app.machine(queue="imports")`. Takes the options
        of `app.flow`; `retry` and `timeout` apply to a step that has none of its own.
        """
        given = read_options(options, FlowOptions.__optional_keys__, "app.machine")
        hooks = given.hooks.over(self._hooks)
        keep_logs = given.keeping_logs(self._keep_logs)
        within, unique = given.within(self._middleware), given.uniqueness

        def make(machine: M) -> M:
            signature = MachineSignature(machine, self._secret_names)
            policy = given.policy(signature.name)
            machine.__machine_job__ = self._add(
                Kind(
                    policy,
                    machine,
                    signature,
                    given.retry or Retry(),
                    "machine",
                    None,
                    hooks,
                    keep_logs,
                    within,
                    self._limits_of(given.limit, policy.kind, signature),
                    uniqueness=unique,
                )
            )
            return machine

        return make if machine is None else make(machine)

    def _add(self, kind: Kind) -> Job[..., Any]:
        if kind.name in self.declared_kinds:
            known = self.declared_kinds[kind.name].function
            raise InvalidInput(
                f'two jobs are called "{kind.name}": {_place(known)} and {_place(kind.function)}; '
                "give one of them name=…"
            )
        self.declared_kinds[kind.name] = kind
        self._add_limits(kind.limits)
        return self._new_job(kind)

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

        name: by default the job's. args: the job's arguments. scopes: a list, an async function or a query;
        the schedule fires for each scope. The job itself is not changed.
        """
        timing = read_timing(cron=cron, tz=tz, every=every, at=at)
        chosen = rules_of(rules)
        kept = duration(history, name="history")

        def declare(job: J) -> J:
            if not isinstance(job, Job) or self.declared_kinds.get(job.name) is not job.kind:
                raise InvalidInput(f"{job!r} is not a job of this app: @app.schedule goes above @app.job")
            if job.kind.uniqueness.is_keyed:
                raise InvalidInput(
                    f"{job.name} has unique=…, and a schedule says itself when its jobs run: give "
                    'overlap="skip" to the schedule, and unique=… to using(…) where you enqueue the job'
                )
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
        """Resolve every annotation, and check that child processes can import what they need. A worker calls
        it when it starts; call it in your own tests, too.
        """
        for kind in self.declared_kinds.values():
            kind.signature.resolve()
            if kind.limits is not None:
                kind.limits.stored  # noqa: B018  # checks that their keys are parameters
                check_source(kind)
            check_names(kind.uniqueness.unique, kind=kind.name, parameters=kind.signature.names)
            if kind.style == "flow" and not kind.signature.takes_context:
                raise InvalidInput(
                    f"{_place(kind.function)} is a flow: take it as the first parameter, annotated Flow"
                )
            if kind.style == "process":
                Reference.of(kind.function)
        for declared in self.declared.values():
            declared.new()


def _place(function: Callable[..., Any]) -> str:
    """Module and name of a function; the repr of a partial, or of an object that can be called."""
    name = getattr(function, "__qualname__", None)
    return f"{function.__module__}.{name}" if name and hasattr(function, "__module__") else repr(function)


def _style(function: Callable[..., Any], isolate: str | None, memory_limit: int | None) -> Style:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(
            f"{_place(function)} has a yield, so calling it runs nothing: return a value, or await"
        )
    if isolate not in (None, "process"):
        raise InvalidInput(f'isolate is {isolate!r}: give "process", or leave it out')
    if memory_limit is not None and isolate != "process":
        raise InvalidInput('memory_limit needs isolate="process": only a child process can be limited')
    if memory_limit is not None and (not is_whole(memory_limit) or memory_limit < 1):
        raise InvalidInput(f"memory_limit is {memory_limit!r}: give a number of bytes, such as 512 * 2**20")
    if memory_limit is not None and memory_limit < _LEAST_MEMORY:
        raise InvalidInput(
            f"memory_limit is {memory_limit} bytes, less than any Python process takes: give bytes, "
            "such as memory_limit=512 * 2**20"
        )
    if isolate == "process":
        return "process"
    called = getattr(function, "__call__", None)  # noqa: B004  # an object's own may be a coroutine function
    is_awaited = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)
    return "coroutine" if is_awaited else "thread"
