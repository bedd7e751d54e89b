"""Whether speed lasts: for a minute under a pinned snapshot, and behind jobs that nobody may take."""

from collections.abc import Iterator
from operator import itemgetter
from statistics import median

from benchmarks.bench import Bench
from benchmarks.crowd import CLAIMERS, Ran, run
from benchmarks.figure import Figure, Target
from benchmarks.session import ARGS, KIND, QUEUE, SCHEMA, Session
from holdfast.storage import operators

_PAUSED = "paused"

_IN_FRONT = """
with written as (
  insert into {schema}.job (created_at, priority, max_attempts, kind, queue, args)
  select now(), 5, 20, %(kind)s::text, %(queue)s::text, %(args)s::text::jsonb
    from generate_series(1, %(number)s::int)
  returning id, created_at, priority, kind, queue
)
insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at)
select queue, priority, id, (select current from {schema}.ring), kind, 0, created_at from written
"""


class Runs:
    """Each run lasts a minute, in which the machine's mood may change: of three the middle one counts. Those
    without obstacles are shared by two measures.
    """

    def __init__(self) -> None:
        self._plain: list[Ran] = []

    def plain(self, bench: Bench) -> list[Ran]:
        while len(self._plain) < bench.scale.long_runs:
            bench.say(f"steady: {CLAIMERS} claiming connections for {bench.scale.seconds:g} s")
            with bench.database() as dsn:
                self._plain.append(run(dsn, int(bench.scale.seconds)))
            bench.say(f"steady: {self._plain[-1].rate:,.0f} jobs/s")
        return self._plain

    def steady(self, bench: Bench) -> Iterator[Figure]:
        window = int(bench.scale.window)
        found = [(ran.last(window) / ran.first(window), ran) for ran in self.plain(bench)]
        ratio, ran = sorted(found, key=itemgetter(0))[len(found) // 2]
        yield Figure(
            "steady",
            f"all at once for {bench.scale.seconds:g} s: last {window} s against first, pinned snapshot",
            ratio,
            Target("at_least", 0.85, "%"),
            f"{ran.first(window):,.0f} then {ran.last(window):,.0f} jobs/s, {ran.changes} ring changes "
            f"(runs: {', '.join(f'{each:.0%}' for each, _ in found)})",
        )

    def blocked(self, bench: Bench) -> Iterator[Figure]:
        without = median(ran.rate for ran in self.plain(bench))
        behind = [self._behind(bench) for _ in range(bench.scale.long_runs)]
        rate = median(ran.rate for ran in behind)
        yield Figure(
            "blocked",
            f"the same behind {bench.scale.blocked:,} paused and as many unknown jobs, against without",
            rate / without,
            Target("at_least", 0.7, "%"),
            f"{rate:,.0f} against {without:,.0f} jobs/s; {behind[0].parked:,} parked",
        )

    @staticmethod
    def _behind(bench: Bench) -> Ran:
        with bench.database() as dsn:
            with Session.on(dsn) as session:
                _put_in_front(session, bench.scale.blocked)
            bench.say(f"blocked: 2 x {bench.scale.blocked:,} jobs are in front")
            ran = run(dsn, int(bench.scale.seconds))
        bench.say(f"blocked: {ran.rate:,.0f} jobs/s")
        return ran


def _put_in_front(session: Session, number: int) -> None:
    session.run(operators.pause(SCHEMA, queue=_PAUSED))
    for queue, kind in ((_PAUSED, KIND), (QUEUE, "nobody_knows")):
        session.ask(_IN_FRONT, {"kind": kind, "queue": queue, "args": ARGS, "number": number})
