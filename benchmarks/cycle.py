"""Claim and settle: our statements against bare ones, a round of each in turn, on the same tables."""

from collections.abc import Iterator
from statistics import median

from benchmarks import bare
from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.leader import Leader
from benchmarks.session import BATCH, Session, seconds


def cycle(bench: Bench) -> Iterator[Figure]:
    """Both on one database: what one leaves behind, dead rows and full caches, the other meets too."""
    jobs = BATCH * bench.scale.batches
    with bench.database() as dsn, Session.on(dsn) as ours, Session.on(dsn) as plain:
        worker, leader = ours.worker(), Leader(ours)
        times: dict[str, list[float]] = {"ours": [], "bare": []}
        for number in range(bench.scale.rounds * 2):
            name = ("ours", "bare")[number % 2]
            ours.enqueue(jobs)
            ours.connection.execute("vacuum holdfast.lease")
            taken = seconds(lambda: _ours(ours, worker) if name == "ours" else _bare(plain, worker))  # noqa: B023  # called at once
            times[name].append(taken)
            leader.once()
            leader.once()
            bench.say(f"cycle: {name} {jobs / taken:,.0f} jobs/s")
    best = {name: jobs / min(those) for name, those in times.items()}
    ratio = median(b / o for o, b in zip(times["ours"], times["bare"], strict=True))
    yield Figure(
        "cycle",
        "claim + settle, against bare SQL",
        ratio,
        Target("at_least", 0.85, "%"),
        f"best rounds: {best['ours']:,.0f} against {best['bare']:,.0f} jobs/s",
    )


def _ours(session: Session, worker: int) -> None:
    while (rows := session.claim(worker))[0].job is not None:
        session.settle(worker, rows)


def _bare(session: Session, worker: int) -> None:
    while bare.cycle(session, worker):
        pass
