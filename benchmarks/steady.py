"""Whether speed lasts: for a minute under a pinned snapshot, and behind jobs that nobody may take."""

from collections.abc import Iterator

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
  returning id, priority, kind, queue
)
insert into {schema}.ready (queue, priority, job, segment, kind, attempt)
select queue, priority, id, (select current from {schema}.ring), kind, 0 from written
"""


class Runs:
    """The run without obstacles is shared by two measures."""

    def __init__(self) -> None:
        self._plain: Ran | None = None

    def plain(self, bench: Bench) -> Ran:
        if self._plain is None:
            bench.say(f"steady: {CLAIMERS} claiming connections for {bench.scale.seconds:g} s")
            with bench.database() as dsn:
                self._plain = run(dsn, int(bench.scale.seconds))
            bench.say(f"steady: {self._plain.rate:,.0f} jobs/s")
        return self._plain

    def steady(self, bench: Bench) -> Iterator[Figure]:
        ran, window = self.plain(bench), int(bench.scale.window)
        first, last = ran.first(window), ran.last(window)
        yield Figure(
            "steady",
            f"all at once for {bench.scale.seconds:g} s: last {window} s against first, pinned snapshot",
            last / first,
            Target("at_least", 0.85, "%"),
            f"{first:,.0f} then {last:,.0f} jobs/s; {ran.changes} changes of the ring",
        )

    def blocked(self, bench: Bench) -> Iterator[Figure]:
        without = self.plain(bench)
        with bench.database() as dsn:
            with Session.on(dsn) as session:
                _put_in_front(session, bench.scale.blocked)
            bench.say(f"blocked: 2 x {bench.scale.blocked:,} jobs are in front")
            ran = run(dsn, int(bench.scale.seconds))
        bench.say(f"blocked: {ran.rate:,.0f} jobs/s")
        yield Figure(
            "blocked",
            f"the same behind {bench.scale.blocked:,} paused and as many unknown jobs, against without",
            ran.rate / without.rate,
            Target("at_least", 0.7, "%"),
            f"{ran.rate:,.0f} against {without.rate:,.0f} jobs/s; {ran.parked:,} parked",
        )


def _put_in_front(session: Session, number: int) -> None:
    session.run(operators.pause(SCHEMA, queue=_PAUSED))
    for queue, kind in ((_PAUSED, KIND), (QUEUE, "nobody_knows")):
        session.ask(_IN_FRONT, {"kind": kind, "queue": queue, "args": ARGS, "number": number})
