"""`Middleware`: the user's code around enqueues, attempts and steps, in a defined order."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from holdfast import App, Batch, BatchFailed, Context, Flow, Job, Middleware, OutgoingJob, Retry
from holdfast.errors import InvalidInput, JobEnded
from holdfast.flows.machine import Done, Machine, Step

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


class Told(Middleware):
    """Says what happens around what, with `name` in front."""

    def __init__(self, name: str, said: list[str]) -> None:
        self.name = name
        self.said = said

    @contextmanager
    def enqueuing(self, jobs: Sequence[OutgoingJob]) -> Iterator[None]:
        self.said.append(f"{self.name} enqueues {len(jobs)}")
        yield
        self.said.append(f"{self.name} has enqueued {[job.id is not None for job in jobs]}")

    @asynccontextmanager
    async def running(self, ctx: Context) -> AsyncIterator[None]:
        self.said.append(f"{self.name} runs {ctx.job.kind}")
        try:
            yield
        except ValueError as error:
            self.said.append(f"{self.name} saw {error}")
            raise
        self.said.append(f"{self.name} has run")

    @contextmanager
    def stepping(self, ctx: Context, step: str) -> Iterator[None]:
        self.said.append(f"{self.name} steps {ctx.job.kind}.{step}")
        yield


class Tenancy(Middleware):
    """Sends the tenant of the enqueuing code along, and sets it around the handler."""

    @contextmanager
    def enqueuing(self, jobs: Sequence[OutgoingJob]) -> Iterator[None]:
        for job in jobs:
            job.headers["tenant"] = TENANT.get()
        yield

    @contextmanager
    def running(self, ctx: Context) -> Iterator[None]:
        token = TENANT.set(ctx.headers.get("tenant", "nobody"))
        try:
            yield
        finally:
            TENANT.reset(token)


def app_with(dsn: str, *middleware: Middleware) -> App:
    return App(dsn, middleware=middleware)


async def test_the_apps_middleware_is_outside_and_the_jobs_inside(dsn: str) -> None:
    said: list[str] = []
    outer, inner = Told("app", said), Told("job", said)
    async with app_with(dsn, outer) as app:

        @app.job(middleware=[inner])
        async def work() -> int:
            said.append("handler")
            return 7

        async with app.worker():
            assert await (await work.enqueue()).result("30s") == 7
    assert said == [
        *("app enqueues 1", "job enqueues 1", "job has enqueued [True]", "app has enqueued [True]"),
        *("app runs work", "job runs work", "handler", "job has run", "app has run"),
    ]


async def test_many_jobs_are_one_enqueue_and_each_middleware_sees_its_own(dsn: str) -> None:
    said: list[str] = []
    async with app_with(dsn, Told("app", said)) as app:

        @app.job(middleware=[Told("a", said)])
        async def a() -> None: ...

        @app.job
        async def b() -> None: ...

        calls = [a.call(), b.call(), a.call()]
        handles = await app.enqueue_many(call for call in calls)
        more = await asyncio.to_thread(app.enqueue_many_sync, [b.call()])
        await asyncio.to_thread(app.close_sync)
    assert len({handle.id for handle in (*handles, *more)}) == 4
    assert said[:4] == [
        *("app enqueues 3", "a enqueues 2", "a has enqueued [True, True]"),
        "app has enqueued [True, True, True]",
    ]
    assert said[4] == "app enqueues 1"


async def test_headers_travel_with_the_job_to_every_style_of_handler(dsn: str) -> None:
    async with app_with(dsn, Tenancy()) as app:
        seen: dict[str, tuple[str, str | None]] = {}

        @app.job
        async def awaited(ctx: Context) -> None:
            seen["awaited"] = (TENANT.get(), ctx.headers["tenant"])

        @app.job
        def threaded(ctx: Context) -> None:
            seen["threaded"] = (TENANT.get(), ctx.headers["tenant"])

        @app.flow
        async def parent(flow: Flow) -> None:
            seen["flow"] = (TENANT.get(), None)
            await flow.call(awaited)

        @app.machine
        class Import(Machine[None]):
            class First(Step):
                async def run(self) -> Done[None]:
                    seen["machine"] = (TENANT.get(), None)
                    return Done(None)

            first = First

        TENANT.set("acme")
        async with app.worker():
            handles = [
                await awaited.enqueue(),
                await asyncio.to_thread(threaded.enqueue_sync),
                await parent.enqueue(),
                await Import.enqueue(Import.First()),
            ]
            for handle in handles:
                await handle.result("30s")
        await asyncio.to_thread(app.close_sync)
    assert seen == {
        "awaited": ("acme", "acme"),
        "threaded": ("acme", "acme"),
        "flow": ("acme", None),
        "machine": ("acme", None),
    }


async def test_in_your_own_transaction_headers_travel_too(dsn: str) -> None:
    async with app_with(dsn, Tenancy()) as app, await psycopg.AsyncConnection.connect(dsn) as conn:

        @app.job
        async def work(ctx: Context) -> str:
            return ctx.headers["tenant"]

        TENANT.set("borrowed")
        handle = await work.using(conn=conn, unique="a", on_conflict="replace").enqueue()
        await conn.commit()
        async with app.worker():
            assert await handle.result("30s") == "borrowed"


async def test_a_plain_middleware_runs_in_the_thread_of_a_plain_function(dsn: str) -> None:
    threads: list[tuple[str, int]] = []

    class InThread(Middleware):
        @contextmanager
        def running(self, ctx: Context) -> Iterator[None]:
            threads.append(("before", threading.get_ident()))
            yield
            threads.append(("after", threading.get_ident()))

    async with app_with(dsn, InThread()) as app:

        @app.job
        def work() -> None:
            threads.append(("handler", threading.get_ident()))

        async with app.worker():
            await (await work.enqueue()).result("30s")
    assert [name for name, _ in threads] == ["before", "handler", "after"]
    assert len({thread for _, thread in threads} - {threading.get_ident()}) == 1


async def test_an_error_passes_through_and_is_retried_as_without(dsn: str) -> None:
    said: list[str] = []
    async with app_with(dsn, Told("app", said)) as app:

        @app.job(retry=Retry(max_attempts=2, backoff="0s"))
        async def work(ctx: Context) -> int:
            if ctx.attempt == 1:
                raise ValueError("no")
            return ctx.attempt

        async with app.worker():
            assert await (await work.enqueue()).result("30s") == 2
    assert said[2:] == ["app runs work", "app saw no", "app runs work", "app has run"]


@pytest.mark.parametrize("is_thread", [False, True])
async def test_what_a_middleware_raises_is_the_attempts_error(dsn: str, is_thread: bool) -> None:
    class Refusing(Middleware):
        @contextmanager
        def running(self, ctx: Context) -> Iterator[None]:
            if not ctx.headers:
                raise PermissionError("not this tenant")
            yield

    called: list[int] = []
    async with app_with(dsn, Refusing()) as app:

        @app.job(name="work", retry=Retry(max_attempts=1))
        async def awaited() -> None:
            called.append(1)

        @app.job(name="plain", retry=Retry(max_attempts=1))
        def plain() -> None:
            called.append(1)

        async with app.worker():
            handle = await (plain if is_thread else awaited).enqueue()
            with pytest.raises(JobEnded, match="not this tenant"):
                await handle.result("30s")
    assert called == []


async def test_an_error_that_a_middleware_swallows_is_a_success_without_a_result(dsn: str) -> None:
    class Lenient(Middleware):
        @contextmanager
        def running(self, ctx: Context) -> Iterator[None]:
            with suppress(ValueError):
                yield

    async with app_with(dsn, Lenient()) as app:

        @app.job
        async def work() -> int | None:
            raise ValueError("never mind")

        async with app.worker():
            assert await (await work.enqueue()).result("30s") is None


async def test_a_manager_that_counts_as_false_is_entered_and_asked_for_once(dsn: str) -> None:
    said: list[str] = []

    class Leases(AbstractAsyncContextManager[None]):
        """Empty, and so false."""

        def __len__(self) -> int:
            return 0

        async def __aenter__(self) -> None:
            said.append("entered")

        async def __aexit__(self, *error: object) -> None:
            said.append("left")

    class Leasing(Middleware):
        def running(self, ctx: Context) -> Leases:
            said.append(f"asked for {ctx.job.kind}")
            return Leases()

    async with app_with(dsn, Leasing()) as app:

        @app.job
        async def work() -> None:
            said.append("called")

        async with app.worker():
            await (await work.enqueue()).result("30s")
    assert said == ["asked for work", "entered", "called", "left"]


async def test_an_enqueue_that_a_middleware_refuses_writes_nothing(dsn: str) -> None:
    class Refusing(Middleware):
        @contextmanager
        def enqueuing(self, jobs: Sequence[OutgoingJob]) -> Iterator[None]:
            if jobs:
                raise PermissionError("not now")
            yield

    async with app_with(dsn, Refusing()) as app:

        @app.job
        async def work() -> None: ...

        with pytest.raises(PermissionError, match="not now"):
            await work.enqueue()
        with pytest.raises(PermissionError, match="not now"):
            await app.enqueue_many([work.call()])
        assert (await app.jobs.list()).jobs == ()


async def test_an_error_of_the_write_is_never_swallowed(dsn: str) -> None:
    class Lenient(Middleware):
        @contextmanager
        def enqueuing(self, jobs: Sequence[OutgoingJob]) -> Iterator[None]:
            with suppress(Exception):  # as a careless middleware does
                yield

    async with app_with(dsn, Lenient()) as app:

        @app.job
        async def work() -> None: ...

        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("alter table holdfast.job rename to hidden")
            with pytest.raises(Exception, match="lacks what Holdfast needs"):
                await work.enqueue()
            connection.execute("alter table holdfast.hidden rename to job")


async def test_steps_have_middleware_each_time_that_they_run(dsn: str) -> None:
    said: list[str] = []
    async with app_with(dsn, Told("app", said)) as app:

        @app.flow
        async def order(flow: Flow) -> int:
            first = await flow.step("charge", lambda: 1)
            await flow.sleep("pause", "1ms")
            return first + await flow.step("ship", lambda: 2)

        @app.machine
        class Import(Machine[None]):
            class First(Step):
                async def run(self) -> Done[None]:
                    return Done(None)

            first = First

        async with app.worker():
            assert await (await order.enqueue()).result("30s") == 3
            await (await Import.enqueue(Import.First())).result("30s")
    steps = [line for line in said if "steps" in line]
    assert steps == ["app steps order.charge", "app steps order.ship", "app steps Import.first"]


async def test_a_rerun_keeps_the_headers(dsn: str) -> None:
    async with app_with(dsn, Tenancy()) as app:

        @app.job
        async def work(ctx: Context) -> str:
            return ctx.headers["tenant"]

        TENANT.set("acme")
        first = await work.enqueue()
        again = await app.jobs.rerun(first.id)
        async with app.worker():
            assert await app.handle(again).result("30s") == "acme"


@pytest.mark.parametrize("number", ["0", "1e400 + 0.5", "1e5000"])
async def test_headers_are_read_beside_a_number_that_python_cannot_hold(dsn: str, number: str) -> None:
    """As a program may leave it in SQL: Postgres keeps numbers of any length."""
    async with app_with(dsn, Tenancy()) as app:

        @app.job
        async def work(ctx: Context) -> str:
            return ctx.headers["tenant"]

        TENANT.set("acme")
        handle = await work.enqueue()
        with psycopg.connect(dsn) as connection:
            connection.execute(
                f"update holdfast.job set origin = origin || jsonb_build_object('number', {number})"
            )
        assert (await app.jobs.show(handle.id)).headers == {"tenant": "acme"}
        again = await app.jobs.rerun(handle.id)
        async with app.worker():
            assert await handle.result("30s") == "acme"
            assert await app.handle(again).result("30s") == "acme"


def test_a_header_is_text_of_limited_size(dsn: str) -> None:
    class Sending(Middleware):
        def __init__(self, value: Any) -> None:
            self.value = value

        @contextmanager
        def enqueuing(self, jobs: Sequence[OutgoingJob]) -> Iterator[None]:
            jobs[0].headers["trace"] = self.value
            yield

    for value, complaint in ((7, "give text"), ("x" * 9_000, "the limit is 8,192")):
        app = app_with(dsn, Sending(value))

        @app.job
        async def work() -> None: ...

        with pytest.raises(InvalidInput, match=complaint):
            work.enqueue_sync()
        app.close_sync()


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        (Tenancy(), "give a list of instances"),
        ([Tenancy], r"give an instance, with \(\)"),
        ([print], "give an instance of holdfast.Middleware"),
    ],
)
def test_what_is_no_middleware_is_refused(given: Any, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        App("embedded", middleware=given)
    with pytest.raises(InvalidInput, match=complaint):
        App("embedded").job(middleware=given)


async def test_a_method_without_its_decorator_says_what_is_missing(dsn: str) -> None:
    class Undecorated(Middleware):
        def running(self, ctx: Context) -> AbstractContextManager[None]:  # type: ignore[misc]
            yield

    async with app_with(dsn, Undecorated()) as app:

        @app.job(retry=Retry(max_attempts=1))
        async def work() -> None: ...

        async with app.worker():
            with pytest.raises(JobEnded, match="write @contextmanager"):
                await (await work.enqueue()).result("30s")


@dataclass
class Note:
    number: int


class Around(Middleware):
    """One plain and one asynchronous context manager for each job of a batch."""

    def __init__(self, said: list[str], *, is_plain: bool) -> None:
        self.said = said
        self.is_plain = is_plain

    def running(self, ctx: Context) -> Any:
        return self._plain(ctx) if self.is_plain else self._awaited(ctx)

    @contextmanager
    def _plain(self, ctx: Context) -> Iterator[None]:
        self.said.append(f"begins {ctx.headers['number']}")
        try:
            yield
        except ValueError as error:
            self.said.append(f"saw {error}")
            raise
        except KeyError:
            self.said.append(f"swallows of {ctx.headers['number']}")
            return
        self.said.append(f"ends {ctx.headers['number']}")

    @asynccontextmanager
    async def _awaited(self, ctx: Context) -> AsyncIterator[None]:
        with self._plain(ctx):
            yield

    @contextmanager
    def enqueuing(self, jobs: Sequence[OutgoingJob]) -> Iterator[None]:
        for number, job in enumerate(jobs):
            job.headers["number"] = str(number)
        yield


@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize("is_coroutine", [True, False])
async def test_around_a_batch_it_is_called_for_each_job_and_sees_the_jobs_own_error(
    dsn: str, is_plain: bool, is_coroutine: bool
) -> None:
    said: list[str] = []
    async with app_with(dsn, Around(said, is_plain=is_plain)) as app:

        def fail() -> None:
            raise BatchFailed({1: ValueError("one"), 2: KeyError("two")})

        async def fail_awaited(notes: list[Note]) -> None:
            said.append("handler")
            fail()

        def fail_in_a_thread(notes: list[Note]) -> None:
            said.append("handler")
            fail()

        work: Job[..., None] = app.job(batch=Batch(3, of=Note, wait="1h"), retry=Retry(max_attempts=1))(
            fail_awaited if is_coroutine else fail_in_a_thread
        )
        async with app.worker():
            handles = await app.enqueue_many([work.call(number) for number in range(3)])
            await handles[0].result("20s")
            with pytest.raises(JobEnded, match="one"):
                await handles[1].result("20s")
            await handles[2].result("20s")
    begun = ["begins 2", "begins 1", "begins 0", "handler"]
    assert said == [*begun, "ends 0", "saw one", "swallows of 2"]


async def test_a_job_of_a_batch_whose_middleware_raises_takes_no_part_in_the_call(dsn: str) -> None:
    class Picky(Middleware):
        @asynccontextmanager
        async def running(self, ctx: Context) -> AsyncIterator[None]:
            if ctx.attempt == 1 and ctx.job.tags == ("bad",):
                raise ValueError("not this one")
            yield

    calls: list[list[int]] = []
    async with app_with(dsn, Picky()) as app:

        @app.job(batch=Batch(2, of=Note, wait="1h"), retry=Retry(max_attempts=1))
        async def work(notes: list[Note]) -> None:
            calls.append([note.number for note in notes])

        async with app.worker():
            good, bad = await app.enqueue_many([work.call(0), work.using(tags=["bad"]).call(1)])
            await good.result("20s")
            with pytest.raises(JobEnded, match="not this one"):
                await bad.result("20s")
    assert calls == [[0]]
