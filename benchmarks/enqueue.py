"""Bulk enqueue: whole jobs, ready to run, against the insert of the job row alone."""

from collections.abc import Iterator
from statistics import median

from benchmarks import bare
from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.session import SCHEMA, Session, new_jobs, seconds
from holdfast.storage.jobs import CHUNK, enqueue_many


def enqueue(bench: Bench) -> Iterator[Figure]:
    number = CHUNK * bench.scale.batches
    ours, plain = [], []
    with bench.database() as dsn, Session.on(dsn) as session:
        _ours(session, CHUNK)
        _bare(session, CHUNK)
        for _ in range(bench.scale.rounds):
            ours.append(seconds(lambda: _ours(session, number)))
            plain.append(seconds(lambda: _bare(session, number)))
            bench.say(f"enqueue: {number / ours[-1]:,.0f} against {number / plain[-1]:,.0f} rows/s")
    yield Figure(
        "enqueue",
        "bulk enqueue, against the job row alone",
        median(b / o for o, b in zip(ours, plain, strict=True)),
        Target("at_least", 0.5, "%"),
        f"best rounds: {number / min(ours):,.0f} against {number / min(plain):,.0f} jobs/s",
    )


def _ours(session: Session, number: int) -> None:
    # One transaction for each, so that the disk's share is the same small one.
    session.hold(enqueue_many(SCHEMA, new_jobs(number), notify=False))


def _bare(session: Session, number: int) -> None:
    with session.connection.transaction():
        for _ in range(0, number, CHUNK):
            bare.enqueue(session, CHUNK)
