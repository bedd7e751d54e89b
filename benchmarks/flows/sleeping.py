"""Whether flows that wait cost those that run anything: draining with a million of them, and with none."""

from collections import defaultdict
from collections.abc import Iterator

import psycopg

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.flows.extent import Extent
from benchmarks.flows.order import STEPS
from benchmarks.peers.crew import Crew, act, wait_until_finished

_TARGET = 0.9
# As flow_wait leaves them: every second one sleeps, the others wait for an event of their own, for a month.
_SEED = (
    """
    insert into holdfast.job (id, created_at, priority, max_attempts, kind, queue, args)
    select nextval('holdfast.job_id_seq'), now(), 5, 3, 'onboard', 'default', jsonb_build_object('user_id', n)
      from generate_series(1, %(number)s) n
    """,
    """
    insert into holdfast.ledger
           (job, run, started_at, finished_at, worker, outcome, attempt, is_final, queue, kind)
    select id, nextval('holdfast.run'), now(), now(), 1, 'snoozed', 1, false, queue, kind from holdfast.job
    """,
    """
    insert into holdfast.checkpoint (job, name, kind, place, code, written_at, is_done, value)
    select id, 'create account', 'step', 1, 1, now(), true, '{"account": 4711}' from holdfast.job
    """,
    """
    insert into holdfast.checkpoint (job, name, kind, place, code, written_at, is_done, until)
    select id, case when id & 1 = 0 then 'cool-off' else 'approved:' || id end,
           case when id & 1 = 0 then 'sleep' else 'event' end, 2, 1, now(), false, now() + interval '30 days'
      from holdfast.job
    """,
    """
    insert into holdfast.scheduled (job, run_at, attempt)
    select id, now() + interval '30 days', 0 from holdfast.job where id & 1 = 0
    """,
    """
    insert into holdfast.waiting (job, since, until)
    select id, now(), now() + interval '30 days' from holdfast.job where id & 1 = 1
    """,
    """
    insert into holdfast.wait (job, name, key, is_eager)
    select id, 'approved:' || id, 'approved:' || id, false from holdfast.job where id & 1 = 1
    """,
    "vacuum analyze",
    "checkpoint",
)


def sleeping(bench: Bench, extent: Extent) -> Iterator[Figure]:
    """Both databases are there at once, and take turns."""
    rates: dict[tuple[str, bool], list[float]] = defaultdict(list)
    sizes = {"holdfast": (extent.jobs, 1), "holdfast-flows": (extent.flows, STEPS)}
    with bench.database() as empty, bench.database() as full:
        _seed(full, extent.sleeping)
        bench.say(f"{extent.sleeping:,} flows sleep or wait")
        for _ in range(extent.rounds):
            for system, (number, each) in sizes.items():
                for dsn in (empty, full):
                    rate = _drain(system, dsn, number, each, extent.concurrency)
                    rates[system, dsn == full].append(rate)
                    of = f"{extent.sleeping:,} sleep" if dsn == full else "none sleeps"
                    bench.say(f"{system}: {rate:,.0f} /s while {of}")
    for system, what in (("holdfast", "jobs"), ("holdfast-flows", "steps of flows")):
        beside, alone = max(rates[system, True]), max(rates[system, False])
        yield Figure(
            "sleeping",
            f"{what} with {extent.sleeping:,} sleeping flows, against none",
            beside / alone,
            Target("at_least", _TARGET, "%"),
            f"{beside:,.0f} against {alone:,.0f} /s",
        )


def _seed(dsn: str, number: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set synchronous_commit = off")
        for statement in _SEED:
            connection.execute(statement, {"number": number})


def _drain(system: str, dsn: str, number: int, each: int, concurrency: int) -> float:
    """How many are handled in a second. The one more is what the producer warmed itself up with."""
    unfinished = act("prepare", system, dsn)
    act("bulk", system, dsn, number)
    with Crew.start(system, dsn, concurrency=concurrency) as crew:
        crew.begin()
        began = crew.wait_for(1, within=60)
        before = crew.tally.total
        crew.wait_for((number + 1) * each, within=300)
        ended = wait_until_finished(dsn, unfinished)
        crew.begun()
        crew.end()
    return ((number + 1) * each - before) / (ended - began)
