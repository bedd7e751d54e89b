"""Leaders in processes of their own that are killed, frozen, or have a wrong clock: every plan fires once."""

from itertools import pairwise

import pytest

from acceptance.books import Books
from acceptance.test_wrong_process_clock import wrong_clock
from acceptance.workers import WorkerProcess, Workers
from schedules.ticking_app import PERIOD
from support.waiting import until

TICKING = "schedules.ticking_app"


def plans(books: Books) -> int:
    return int(books.value("select count(*) from holdfast.plan"))


async def leading(books: Books, alive: list[WorkerProcess]) -> WorkerProcess:
    await until(lambda: books.leader() in [worker.id for worker in alive], "one of them leads")
    return next(worker for worker in alive if worker.id == books.leader())


async def ticks(books: Books, number: int) -> None:
    before = plans(books)
    await until(lambda: plans(books) >= before + number, f"{number} more plans")


@pytest.mark.machine  # workers in processes of their own
@pytest.mark.timeout(180)
@pytest.mark.requirement("S2.41", "S3.18")
async def test_leaders_that_are_killed_and_frozen_lose_no_plan_and_fire_none_twice(
    books: Books, workers: Workers
) -> None:
    alive = [await workers.start(module=TICKING, leader_lease=1.0) for _ in range(2)]
    await ticks(books, 5)
    for fault in ("kill", "freeze", "kill", "freeze"):
        leader = await leading(books, alive)
        await ticks(books, 3)
        alive.remove(leader)
        if fault == "kill":
            leader.kill()
        else:
            leader.freeze()
        alive.append(await workers.start(module=TICKING, leader_lease=1.0))
        await leading(books, alive)
        await ticks(books, 5)
        if fault == "freeze":
            leader.thaw()
            leader.terminate()
            assert await leader.exit_code() == 0
    for worker in alive:
        await worker.stop()
    rows = books.run("select plan_time, job, decision from holdfast.plan order by plan_time")
    assert {later[0] - earlier[0] for earlier, later in pairwise(rows)} == {PERIOD}
    assert len({job for _, job, _ in rows}) == len(rows)
    assert {decision for _, _, decision in rows} <= {"fired", "caught_up"}
    assert books.value("select count(*) from holdfast.job") == len(rows)


@pytest.mark.machine
@pytest.mark.root
@pytest.mark.requirement("S0.1")
@pytest.mark.parametrize("shift", ["+1h", "-1h"])
async def test_a_planner_whose_clock_is_an_hour_off_plans_like_any_other(
    books: Books, workers: Workers, shift: str
) -> None:
    wrong = await workers.start(module=TICKING, environment=wrong_clock(shift))
    await leading(books, [wrong])
    await ticks(books, 10)
    await wrong.stop()
    rows = books.run(
        "select plan_time, decision, abs(extract(epoch from lag)), run_at - plan_time,"
        " abs(extract(epoch from decided_at - now())) from holdfast.plans order by plan_time"
    )
    assert {later[0] - earlier[0] for earlier, later in pairwise(rows)} == {PERIOD}
    assert {row[1] for row in rows} == {"fired"} | ({"caught_up"} & {row[1] for row in rows})
    assert max(row[2] for row in rows) < 60
    assert max(row[4] for row in rows) < 60
