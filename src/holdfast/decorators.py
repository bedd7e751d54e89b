"""`@app.job`, `@app.flow`, `@app.machine` and `@app.schedule`, and what a worker checks when it starts."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast, overload

from holdfast.codec.signature import Signature
from holdfast.domain.duration import Length, duration
from holdfast.domain.job import is_whole
from holdfast.domain.retention import HISTORY
from holdfast.domain.retry import Retry
from holdfast.domain.timing import read_timing
from holdfast.errors import InvalidInput
from holdfast.flows.flow import Flow
from holdfast.flows.machine import Machine
from holdfast.flows.machine_signature import MachineSignature
from holdfast.job import Job
from holdfast.kind_options import FlowOptions, JobOptions, read_options
from holdfast.schedules.declarer import Declared
from holdfast.schedules.options import RuleOptions, rules_of
from holdfast.schedules.scopes import Source
from holdfast.worker.context import Context
from holdfast.worker.job_kind import Hooks, Kind, Style
from holdfast.worker.processes.reference import Reference

P = ParamSpec("P")
R = TypeVar("R")
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


class FlowMaker:
    """`@app.flow(…)` before it meets its function."""

    def __init__(self, make: Callable[[Callable[..., Any]], Job[..., Any]]) -> None:
        self._make = make

    def __call__(self, function: Callable[Concatenate[Flow, P], Awaitable[R]]) -> Job[P, R]:
        job: Job[P, R] = cast("Any", self._make(function))
        return job


class Decorators:
    """The part of an App that declares kinds of jobs and schedules. Opens nothing."""

    def __init__(self, hooks: Hooks, new_job: Callable[[Kind], Job[..., Any]]) -> None:
        self.declared_kinds: dict[str, Kind] = {}
        self.declared: dict[str, Declared] = {}
        self._hooks = hooks
        self._new_job = new_job

    @overload
    def job(self, function: Callable[Concatenate[Context, P], Awaitable[R]], /) -> Job[P, R]: ...
    @overload
    def job(self, function: Callable[Concatenate[Context, P], R], /) -> Job[P, R]: ...
    @overload
    def job(self, function: Callable[P, Awaitable[R]], /) -> Job[P, R]: ...
    @overload
    def job(self, function: Callable[P, R], /) -> Job[P, R]: ...
    @overload
    def job(self, function: None = None, /, **options: Unpack[JobOptions]) -> JobMaker: ...
    def job(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[JobOptions]
    ) -> JobMaker | Job[..., Any]:
        """Make a function a kind of job: `@app.job`, or `@app.job(queue="mail", timeout="30s")`.

        name: by default the function's. queue="default", priority=5 (0 is most urgent), tags. retry: a Retry,
        by default 20 attempts. timeout: of one attempt, by default "1h". keep: how long it is kept after its
        end, "0s" to delete it at once. on_lost: "retry" (the default) or "fail" when its worker dies.
        isolate: "process" for a child process, memory_limit: its bytes. on_start, on_success, on_failure,
        on_dead, on_lease_lost, on_expired, on_cancelled: hooks in place of the app's.
        """
        given = read_options(options, JobOptions.__optional_keys__, "app.job")
        hooks = given.hooks.over(self._hooks)

        def make(function: Callable[..., Any]) -> Job[..., Any]:
            signature = Signature.of(function, context=Context)
            style = _style(function, given.isolate, given.memory_limit)
            policy = given.policy(signature.name)
            retry = given.retry or Retry()
            return self._add(Kind(policy, function, signature, retry, style, given.memory_limit, hooks))

        return JobMaker(make) if function is None else make(function)

    @overload
    def flow(self, function: Callable[Concatenate[Flow, P], Awaitable[R]], /) -> Job[P, R]: ...
    @overload
    def flow(self, function: None = None, /, **options: Unpack[FlowOptions]) -> FlowMaker: ...
    def flow(
        self, function: Callable[..., Any] | None = None, /, **options: Unpack[FlowOptions]
    ) -> FlowMaker | Job[..., Any]:
        """Make a coroutine function a flow: a job that resumes where it stopped. Takes the options of
        `app.job` without on_lost, isolate and memory_limit; `retry` and `timeout` apply to a run, from one
        wait to the next.
        """
        given = read_options(options, FlowOptions.__optional_keys__, "app.flow")
        hooks = given.hooks.over(self._hooks)

        def make(function: Callable[..., Any]) -> Job[..., Any]:
            if not inspect.iscoroutinefunction(function):
                raise InvalidInput(f"{_place(function)} cannot be a flow: define it with async def")
            signature = Signature.of(function, context=Flow)
            policy = given.policy(signature.name)
            return self._add(Kind(policy, function, signature, given.retry or Retry(), "flow", None, hooks))

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

        def make(machine: M) -> M:
            signature = MachineSignature(machine)
            policy = given.policy(signature.name)
            machine.__machine_job__ = self._add(
                Kind(policy, machine, signature, given.retry or Retry(), "machine", None, hooks)
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
