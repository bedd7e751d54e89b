"""A schedule with thousands of scopes, all due at once: one pass of the planner, which reads, decides and
writes plans and jobs, against the plain bulk enqueue of as many jobs.
"""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from statistics import median

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.session import ARGS, POLICY, SCHEMA, Session, new_jobs, seconds
from holdfast.domain.timing import Cron
from holdfast.postgres.database import Database
from holdfast.schedules.planner import Planner
from holdfast.storage.jobs import enqueue_many
from holdfast.storage.schedules import NewSchedule, NewScope, put_whole
from holdfast.storage.session import SETTINGS
from holdfast.telemetry.events import Emitter

_AGAIN = """
truncate {schema}.plan, {schema}.job, {schema}.ready;
update {schema}.schedule_scope set since_at = now() - interval '1 day', last_plan_at = null, next_at = now();
vacuum analyze {schema}.schedule_scope
"""


def schedules(bench: Bench) -> Iterator[Figure]:
    number = bench.scale.scopes
    ours, plain = [], []
    with bench.database() as dsn, Session.on(dsn) as session, asyncio.Runner() as runner:
        database = Database(dsn, session=SETTINGS)
        runner.run(database.open())
        planner = Planner(database, SCHEMA, Emitter())
        _put(session, number)
        for _ in range(bench.scale.rounds):
            _again(session)
            ours.append(seconds(lambda: runner.run(_pass(planner, number))))
            _again(session)
            plain.append(seconds(lambda: session.hold(enqueue_many(SCHEMA, new_jobs(number), notify=False))))
            bench.say(f"schedules: {number / ours[-1]:,.0f} against {number / plain[-1]:,.0f} jobs/s")
        runner.run(database.close())
    yield Figure(
        "schedules",
        f"a plan of {number:,} scopes fired, against bulk enqueue",
        median(p / o for o, p in zip(ours, plain, strict=True)),
        Target("at_least", 0.5, "%"),
        f"best rounds: {number / min(ours):,.0f} against {number / min(plain):,.0f} jobs/s",
    )


def _put(session: Session, number: int) -> None:
    new = NewSchedule("rollup", Cron("0 0 * * *"), POLICY, ARGS, history=timedelta(days=30), has_scopes=True)
    scopes = [NewScope(f"workspace:{n}") for n in range(number)]
    session.hold(put_whole(SCHEMA, new, scopes, is_declared=False))


def _again(session: Session) -> None:
    for command in _AGAIN.split(";"):
        session.ask(command)


async def _pass(planner: Planner, number: int) -> None:
    fired = 0
    while fired < number:
        did = await planner.once()
        assert did.count, "nothing was due any more"
        fired += did.count
