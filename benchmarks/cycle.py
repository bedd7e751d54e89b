"""Claim and settle: our statements against bare ones, a round of each in turn, on the same tables."""

from collections.abc import Callable, Iterator

from benchmarks import bare
from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.leader import Leader
from benchmarks.session import BATCH, Session, seconds


def cycle(bench: Bench) -> Iterator[Figure]:
    """Both on one database: what one leaves behind, dead rows and full caches, the other meets too.

    Many short rounds and the best of each: whatever else runs on the machine only ever makes a round slower.
    """
    jobs = BATCH * bench.scale.batches // 2
    with bench.database() as dsn, Session.on(dsn) as session, Leader(dsn) as leader:
        worker = session.worker()
        drain: dict[str, Callable[[], None]] = {
            "ours": lambda: _ours(session, worker),
            "bare": lambda: _bare(bare.cycle, session, worker),
            "tuned": lambda: _bare(bare.tuned_cycle, session, worker),
        }
        best = dict.fromkeys(drain, float("inf"))
        for _ in range(bench.scale.rounds * 3):
            for name, drained in drain.items():
                session.enqueue(jobs)
                session.ask("vacuum {schema}.lease")
                best[name] = min(best[name], seconds(drained))
                leader.once()
                leader.once()
    rate = {name: jobs / taken for name, taken in best.items()}
    bench.say(f"cycle: {', '.join(f'{name} {found:,.0f} jobs/s' for name, found in rate.items())}")
    yield Figure(
        "cycle",
        "claim + settle, against bare SQL",
        rate["ours"] / rate["bare"],
        Target("at_least", 0.85, "%"),
        f"best of {bench.scale.rounds * 3} rounds: {rate['ours']:,.0f} against {rate['bare']:,.0f} jobs/s; "
        f"{rate['ours'] / rate['tuned']:.0%} of one tuned to this driver",
    )


def _ours(session: Session, worker: int) -> None:
    while (rows := session.claim(worker))[0].job is not None:
        session.settle(worker, rows)


def _bare(cycle: Callable[[Session, int], int], session: Session, worker: int) -> None:
    while cycle(session, worker):
        pass
