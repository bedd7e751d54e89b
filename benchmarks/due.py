"""Promote and next-due while somebody holds an old snapshot: fresh, and after very many promotions."""

from collections.abc import Iterator
from datetime import datetime
from statistics import median

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.session import ARGS, KIND, QUEUE, SCHEMA, Session, seconds
from benchmarks.snapshot import pinned
from holdfast.storage import chores

_SMALL = 100
_LARGE = 4_000

# Due a moment ago, each at a time of its own and in order, as jobs are that were scheduled one by one.
_SCHEDULE = """
with written as (
  insert into {schema}.job (created_at, priority, max_attempts, kind, queue, args)
  select now(), 5, 20, %(kind)s::text, %(queue)s::text, %(args)s::text::jsonb
    from generate_series(1, %(number)s::int)
  returning id
)
insert into {schema}.scheduled (job, run_at, attempt)
select id, clock_timestamp(), 0 from written
"""


class Promoter:
    """Goes on from where it looked last, as the leader does."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.since: datetime | None = None

    def promote(self, limit: int) -> int:
        done = self._session.one(chores.promote(SCHEMA, since=self.since, limit=limit))
        self.since = done.seen or self.since
        return done.moved

    def next_due(self) -> None:
        self._session.one(chores.next_due(SCHEMA, since=self.since))

    def schedule(self, number: int) -> None:
        self._session.ask(_SCHEDULE, {"kind": KIND, "queue": QUEUE, "args": ARGS, "number": number})


def due(bench: Bench) -> Iterator[Figure]:
    with bench.database() as dsn, Session.on(dsn) as session, pinned(dsn):
        promoter = Promoter(session)
        for _ in range(3):
            _times(promoter, rounds=1)
        fresh = _times(promoter, bench.scale.rounds)
        left = bench.scale.promotions
        while left > 0:
            promoter.schedule(min(left, 10 * _LARGE))
            while promoter.promote(_LARGE) == _LARGE:
                pass
            left -= 10 * _LARGE
            # The ring is not what is measured here: ready must not pile up.
            session.ask("truncate {schema}.ready")
        bench.say(f"due: {bench.scale.promotions:,} promoted")
        later = _times(promoter, bench.scale.rounds)
    for name, before, after in zip(("promote", "next-due"), fresh, later, strict=True):
        yield Figure(
            "due",
            f"{name} after {bench.scale.promotions:,} promotions, against fresh",
            after / before,
            Target("at_most", 3, "x"),
            f"median: {after * 1e3:.2f} against {before * 1e3:.2f} ms"
            + (f" for {_SMALL} jobs" if name == "promote" else ""),
        )


def _times(promoter: Promoter, rounds: int) -> tuple[float, float]:
    promote, next_due = [], []
    for _ in range(rounds):
        promoter.schedule(_SMALL)
        next_due.append(seconds(promoter.next_due))
        promote.append(seconds(lambda: promoter.promote(_SMALL)))
        next_due.append(seconds(promoter.next_due))
    return median(promote), median(next_due)
