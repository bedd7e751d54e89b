"""What a flow's author sees: steps that are kept, waits that hold no worker."""

import asyncio
import threading
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from flows.fast_worker import state_of, until_state, working
from holdfast import App, Flow, Handle, Retry
from holdfast.errors import ChildFailed, EventTimeout, InvalidInput, JobEnded, StepFailed
from holdfast.storage.job_lookup import history
from support.waiting import until


@dataclass
class Account:
    id: int
    contacts: list[str]


@dataclass
class Approval:
    by: str


async def test_a_flow_does_its_steps_waits_and_ends_with_a_result(app: App) -> None:
    ran: list[str] = []

    async def create(user: int) -> Account:
        ran.append("create")
        return Account(user, ["ann", "bob"])

    @app.job
    async def send_mail(to: str) -> str:
        ran.append(f"mail {to}")
        return f"sent to {to}"

    @app.flow(retry=Retry(max_attempts=3))
    async def onboarding(flow: Flow, user: int) -> str:
        account = await flow.step("create account", create, user)
        await flow.sleep("cool-off", "50ms")
        approval = await flow.wait_event(f"approved:{user}", timeout="7 days", type=Approval)
        receipts = await flow.gather(*(flow.call(send_mail, to) for to in account.contacts))
        return f"{approval.by}: {', '.join(receipts)}"

    async with working(app):
        handle = await onboarding.enqueue(42)
        await until_state(app, handle.id, "waiting")
        await app.emit("approved:42", {"by": "eve"})
        assert await handle.result(timeout="30s") == "eve: sent to ann, sent to bob"
    assert sorted(ran) == ["create", "mail ann", "mail bob"]


async def test_an_event_that_came_before_the_flow_is_not_missed(app: App) -> None:
    @app.flow
    async def waiting(flow: Flow) -> list[Any]:
        return [await flow.wait_event("go", key=turn) for turn in range(2)]

    await app.emit("go", 1)
    await app.emit("go", 2)
    async with working(app):
        assert await (await waiting.enqueue()).result(timeout="30s") == [1, 2]


async def test_one_event_does_not_answer_two_waits_of_a_flow(app: App) -> None:
    woken: list[int] = []

    @app.flow
    async def four_eyes(flow: Flow) -> list[Any]:
        woken.append(1)
        return await flow.gather(*(flow.wait_event("approved", key=eyes) for eyes in (10, 2)))

    async with working(app):
        handle = await four_eyes.enqueue()
        await until_state(app, handle.id, "waiting")
        await app.emit("approved", "Ann")

        async def is_back() -> bool:
            return len(woken) == 2 and await state_of(app, handle.id) == "waiting"

        await until(is_back)
        await app.emit("approved", "Bob")
        assert await handle.result(timeout="30s") == ["Ann", "Bob"]


async def test_a_wait_that_takes_too_long_is_told_to_the_flow(app: App) -> None:
    @app.flow
    async def waiting(flow: Flow) -> str:
        try:
            await flow.wait_event("never", timeout="50ms")
        except EventTimeout as error:
            return f"no {error.event}"
        return "came"

    async with working(app):
        assert await (await waiting.enqueue()).result(timeout="30s") == "no never"


async def test_a_step_may_be_a_plain_function_which_runs_in_a_thread(app: App) -> None:
    def where() -> str:
        return threading.current_thread().name

    @app.flow
    async def flow_of_threads(flow: Flow) -> str:
        return await flow.step("where", where)

    async with working(app):
        assert (await (await flow_of_threads.enqueue()).result(timeout="30s")).startswith("holdfast-job")


@pytest.mark.requirement("S1.17", "S1.18", "S1.19", "S1.20")
async def test_a_step_with_its_own_retry_is_tried_again_without_the_steps_before_it(app: App) -> None:
    tries: list[str] = []

    async def once() -> None:
        tries.append("once")

    async def shaky() -> str:
        tries.append("shaky")
        if len(tries) < 4:
            raise ConnectionError("not yet")
        return "done"

    @app.flow(retry=Retry(max_attempts=1))
    async def retrying(flow: Flow) -> str:
        await flow.step("once", once)
        return await flow.step("shaky", shaky, retry=Retry(max_attempts=5, backoff="10ms"))

    async with working(app):
        handle = await retrying.enqueue()
        assert await handle.result(timeout="30s") == "done"
    assert tries == ["once", "shaky", "shaky", "shaky"]
    entries = await app.run(history(app.schema, handle.id))
    assert [entry.outcome for entry in entries] == ["retried", "retried", "succeeded"]
    assert all("not yet" in (entry.error or "") for entry in entries[:2])


async def test_a_step_whose_retries_are_used_up_fails_the_flow_at_once(app: App) -> None:
    tries: list[int] = []

    def broken() -> None:
        tries.append(1)
        raise ValueError("no")

    @app.flow(retry=Retry(max_attempts=10, backoff="0s"))
    async def failing(flow: Flow) -> None:
        await flow.step("broken", broken, retry=Retry(max_attempts=3, backoff="0s"))

    async with working(app):
        handle = await failing.enqueue()
        with pytest.raises(JobEnded) as ended:
            await handle.result(timeout="30s")
    assert len(tries) == 3
    assert ended.value.error["type"] == "ValueError"


async def test_a_failure_that_the_flow_catches_is_kept_and_the_step_never_runs_again(app: App) -> None:
    tries: list[str] = []

    def charge() -> None:
        tries.append("charge")
        raise ValueError("declined")

    def notify() -> None:
        tries.append("notify")
        if len(tries) < 4:
            raise ConnectionError("mail server away")

    @app.flow(retry=Retry(max_attempts=5, backoff="0s"))
    async def charging(flow: Flow) -> str:
        try:
            await flow.step("charge", charge)
        except StepFailed as error:
            await flow.step("notify", notify)
            return str(error.error["message"])
        return "charged"

    async with working(app):
        assert await (await charging.enqueue()).result(timeout="30s") == "declined"
    assert tries == ["charge", "notify", "notify", "notify"]


@pytest.mark.parametrize("form", ["block", "function"])
async def test_a_transaction_that_failed_and_was_caught_is_kept_and_its_replay_takes_the_same_way(
    app: App, books: str, form: str
) -> None:
    causes: list[type[BaseException] | None] = []
    balances = iter([0, 100, 100, 100])

    async def pay(conn: psycopg.AsyncConnection[Any]) -> None:
        await conn.execute("insert into deed values ('paid')")
        if next(balances) == 0:
            raise ValueError("insufficient funds")

    @app.flow
    async def booking(flow: Flow) -> str:
        try:
            if form == "function":
                await flow.transaction("book", pay)
            else:
                async with flow.transaction("book") as conn:
                    assert conn is not None
                    await pay(conn)
        except StepFailed as error:
            causes.append(type(error.__cause__) if error.__cause__ else None)
            await flow.sleep("cool-off", "10ms")
            return f"{error.step}: {error.error['message']}"
        return "booked"

    async with working(app):
        assert await (await booking.enqueue()).result(timeout="30s") == "book: insufficient funds"
    assert causes == [ValueError, None]
    assert len(list(balances)) == 3
    with psycopg.connect(books) as connection:
        assert connection.execute("select count(*) from deed").fetchone() == (0,)


async def test_a_transaction_that_failed_and_was_let_through_is_tried_again_by_the_flows_own_policy(
    app: App, books: str
) -> None:
    tries: list[int] = []

    @app.flow(retry=Retry(max_attempts=5, backoff="0s", on=ConnectionError))
    async def booking(flow: Flow) -> None:
        async with flow.transaction("book") as conn:
            assert conn is not None
            tries.append(1)
            await conn.execute("insert into deed values ('paid')")
            if len(tries) < 3:
                raise ConnectionError

    async with working(app):
        await (await booking.enqueue()).result(timeout="30s")
    assert len(tries) == 3
    with psycopg.connect(books) as connection:
        assert connection.execute("select count(*) from deed").fetchone() == (1,)


async def test_a_commit_that_took_place_is_no_failure_though_its_answer_was_lost_and_the_flow_caught_that(
    app: App, books: str
) -> None:
    cuts = iter([True])

    class Cut(psycopg.AsyncConnection[Any]):
        async def commit(self) -> None:
            await super().commit()
            if next(cuts, False):
                raise psycopg.OperationalError("the connection was cut")

    @app.flow
    async def booking(flow: Flow) -> str:
        try:
            async with await Cut.connect(books) as own:
                await own.execute("select 1")  # begins a transaction, which the block ends by commit()
                async with flow.transaction("book", conn=own) as conn:
                    if conn is not None:
                        await conn.execute("insert into deed values ('paid')")
        except StepFailed:
            await flow.step("apologise", str)
            return "refused"
        return "booked"

    async with working(app):
        assert await (await booking.enqueue()).result(timeout="30s") == "booked"
    assert next(cuts, None) is None
    with psycopg.connect(books) as connection:
        assert connection.execute("select count(*) from deed").fetchone() == (1,)


async def test_what_outlives_a_transaction_cannot_use_its_connection(app: App, books: str) -> None:
    @app.flow
    async def booking(flow: Flow) -> str:
        async with flow.transaction("book") as first:
            assert first is not None
            await first.execute("insert into deed values ('paid')")
        async with flow.transaction("tell") as second:
            assert second is not None
            with pytest.raises(psycopg.OperationalError, match="connection was for has ended"):
                await first.execute("insert into deed values ('late')")
            await second.execute("insert into deed values ('told')")
        return "booked"

    async with working(app):
        assert await (await booking.enqueue()).result(timeout="30s") == "booked"
    with psycopg.connect(books) as connection:
        assert connection.execute("select count(*) from deed where name = 'late'").fetchone() == (0,)


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_transaction_that_was_ended_inside_has_failed_and_never_runs_again(
    app: App, books: str, is_own: bool
) -> None:
    @app.flow(retry=Retry(max_attempts=3, backoff="0s"))
    async def booking(flow: Flow) -> None:
        async with (
            await psycopg.AsyncConnection.connect(books, autocommit=True) as own,
            flow.transaction("book", conn=own if is_own else None) as conn,
        ):
            assert conn is not None
            await conn.execute("insert into deed values ('paid')")
            await conn.execute("commit")
            raise ConnectionError

    async with working(app):
        with pytest.raises(JobEnded, match="committed or rolled back its transaction"):
            await (await booking.enqueue()).result(timeout="30s")
    with psycopg.connect(books) as connection:
        assert connection.execute("select count(*) from deed").fetchone() == (1,)


@pytest.mark.parametrize("is_caught", [True, False])
async def test_a_step_whose_value_cannot_be_kept_has_failed_and_never_runs_again(
    app: App, is_caught: bool
) -> None:
    charged: list[int] = []

    def charge() -> object:
        charged.append(1)
        return object()

    @app.flow(retry=Retry(max_attempts=3, backoff="0s"))
    async def charging(flow: Flow) -> str:
        try:
            await flow.step("charge", charge, retry=Retry(max_attempts=3, backoff="0s"))
        except StepFailed as error:
            if not is_caught:
                raise
            await flow.sleep("cool-off", "10ms")
            return str(error.error["message"])
        return "charged"

    async with working(app):
        handle = await charging.enqueue()
        if is_caught:
            assert "cannot be kept" in await handle.result(timeout="30s")
        else:
            with pytest.raises(JobEnded, match="cannot be kept"):
                await handle.result(timeout="30s")
    assert charged == [1]


async def test_a_failure_that_the_flow_lets_through_is_tried_again_by_the_flows_own_policy(app: App) -> None:
    tries: list[str] = []

    def first() -> None:
        tries.append("first")

    def second() -> None:
        tries.append("second")
        if len(tries) < 4:
            raise ConnectionError

    @app.flow(retry=Retry(max_attempts=5, backoff="0s", on=ConnectionError))
    async def plain(flow: Flow) -> None:
        await flow.step("first", first)
        await flow.step("second", second)

    async with working(app):
        await (await plain.enqueue()).result(timeout="30s")
    assert tries == ["first", "second", "second", "second"]


async def test_a_step_that_takes_too_long_has_failed(app: App) -> None:
    @app.flow
    async def slow(flow: Flow) -> str:
        try:
            await flow.step("slow", asyncio.sleep, 60, timeout="20ms")
        except StepFailed as error:
            return str(error.error["code"])
        return "never"

    async with working(app):
        assert await (await slow.enqueue()).result(timeout="30s") == "timeout"


async def test_a_child_that_fails_is_told_to_the_flow_with_its_error(app: App) -> None:
    @app.job(retry=Retry(max_attempts=1))
    async def bad(number: int) -> int:
        if number % 2:
            raise ValueError(f"{number} is odd")
        return number

    @app.flow
    async def parent(flow: Flow) -> list[str]:
        one = await flow.gather(*(flow.call(bad, number) for number in range(4)), failures="return")
        try:
            await flow.call(bad, 7).named("seven")
        except ChildFailed as error:
            return [*map(str, one), f"{error.step}: {error.error['message']}"]
        return []

    async with working(app):
        told = await (await parent.enqueue()).result(timeout="30s")
    assert [told[0], told[2], told[4]] == ["0", "2", "seven: 7 is odd"]
    assert "1 is odd" in told[1]


async def test_the_first_failure_cancels_the_other_children_if_asked_to(app: App) -> None:
    @app.job(retry=Retry(max_attempts=1))
    async def bad() -> None:
        raise ValueError("no")

    @app.job
    async def long() -> None:
        await asyncio.sleep(60)

    @app.flow
    async def parent(flow: Flow) -> None:
        await flow.gather(flow.call(long), flow.call(bad), failures="cancel")

    async with working(app):
        handle = await parent.enqueue()
        with pytest.raises(JobEnded, match="no"):
            await handle.result(timeout="30s")
        await until_state(app, handle.id + 1, "cancelled")


async def test_cancelling_a_flow_reaches_its_children_and_theirs(app: App) -> None:
    @app.job
    async def long() -> None:
        await asyncio.sleep(60)

    @app.flow
    async def child(flow: Flow) -> None:
        await flow.call(long)

    @app.flow
    async def parent(flow: Flow) -> None:
        await flow.gather(flow.call(child), flow.call(long))

    async with working(app):
        handle = await parent.enqueue()
        await until_state(app, handle.id, "waiting")
        await until_state(app, handle.id + 2, "running", "waiting")
        await until_state(app, handle.id + 3, "running")
        assert await handle.cancel() == "cancelled"
        for job in range(handle.id + 1, handle.id + 4):
            await until_state(app, job, "cancelled")


async def test_a_flow_waits_for_a_job_that_was_enqueued_elsewhere(app: App) -> None:
    @app.job
    async def other() -> str:
        return "other's"

    handles: list[Handle[str]] = []

    @app.flow
    async def parent(flow: Flow) -> str:
        return await flow.wait_job(handles[0])

    handles.append(await other.using(delay="100ms").enqueue())
    async with working(app):
        assert await (await parent.enqueue()).result(timeout="60s") == "other's"


async def test_branches_run_at_the_same_time_and_wait_together(app: App) -> None:
    both = asyncio.Barrier(2)
    ran: list[str] = []

    async def step(name: str) -> str:
        ran.append(name)
        async with asyncio.timeout(20):
            await both.wait()
        return name

    async def branch(flow: Flow, name: str) -> str:
        given = await flow.step(name, step, name)
        await flow.sleep(f"rest of {name}", "20ms")
        return given

    @app.job
    async def child() -> str:
        return "child"

    @app.flow
    async def together(flow: Flow) -> list[Any]:
        return await flow.gather(
            branch(flow, "a"), branch(flow, "b"), flow.wait_event("go"), flow.call(child)
        )

    async with working(app):
        handle = await together.enqueue()
        await until_state(app, handle.id, "waiting")
        await app.emit("go", "gone")
        assert await handle.result(timeout="30s") == ["a", "b", "gone", "child"]
    assert sorted(ran) == ["a", "b"]


async def test_now_and_uuid_are_the_same_in_every_run(app: App) -> None:
    seen: list[tuple[object, object]] = []

    @app.flow
    async def drawing(flow: Flow) -> None:
        seen.append((await flow.now(), await flow.uuid()))
        await flow.sleep("rest", "10ms")

    async with working(app):
        await (await drawing.enqueue()).result(timeout="30s")
    assert len(seen) == 2
    assert seen[0] == seen[1]


async def test_an_emit_goes_with_the_callers_transaction(app: App, dsn: str) -> None:
    @app.flow
    async def waiting(flow: Flow) -> str:
        given: str = await flow.wait_event("go", type=str)
        return given

    async with working(app), await psycopg.AsyncConnection.connect(dsn) as conn:
        handle = await waiting.enqueue()
        await until_state(app, handle.id, "waiting")
        await app.emit("go", "lost", conn=conn)
        await conn.rollback()
        await app.emit("go", "kept", conn=conn)
        assert await state_of(app, handle.id) == "waiting"
        await conn.commit()
        assert await handle.result(timeout="30s") == "kept"


@pytest.mark.parametrize("payload", [float("nan"), {"cents": [1.5, None, float("-inf")]}])
async def test_an_event_that_json_has_no_number_for_is_refused(app: App, payload: object) -> None:
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        await app.emit("go", payload)
    await app.emit("go", {"cents": [1.5, None]})
