"""What a claim costs with many jobs waiting and with few, one claim of each in turn."""

from collections.abc import Iterator
from statistics import median

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.session import ARGS, BATCH, KIND, QUEUE, Session, seconds

_FEW = 1_000

# As a ring leaves a backlog behind that nobody drains: four full segments, one after the other.
LOAD = """
with written as (
  insert into {schema}.job (created_at, priority, max_attempts, kind, queue, args)
  select now(), priority, 20, %(kind)s::text, %(queue)s::text, %(args)s::text::jsonb
    from (select 4 + i %% 3 as priority from generate_series(1, %(number)s::int) as i) new
  returning id, created_at, priority, kind, queue
)
insert into {schema}.ready (queue, priority, job, segment, kind, attempt, ready_at)
select queue, priority, id, (id * 4 / (%(number)s::int + 1))::int %% 4, kind, 0, created_at from written
"""


def backlog(bench: Bench) -> Iterator[Figure]:
    with (
        bench.database() as many_dsn,
        bench.database() as few_dsn,
        Session.on(many_dsn) as many,
        Session.on(few_dsn) as few,
    ):
        workers = {many: many.worker(), few: few.worker()}
        _load(many, bench.scale.waiting)
        _load(few, _FEW)
        bench.say(f"backlog: {bench.scale.waiting:,} jobs wait")
        times: dict[Session, list[float]] = {many: [], few: []}
        for _ in range(bench.scale.rounds * 20):
            for session in (many, few):
                times[session].append(seconds(lambda: session.claim(workers[session])))  # noqa: B023  # called at once
                _load(session, BATCH)
    typical = {session: median(those) for session, those in times.items()}
    yield Figure(
        "backlog",
        f"claim with {bench.scale.waiting:,} jobs waiting, against {_FEW:,}",
        typical[many] / typical[few],
        Target("at_most", 1.3, "x"),
        f"median of {len(times[many])}: {typical[many] * 1e3:.2f} against {typical[few] * 1e3:.2f} ms",
    )


def _load(session: Session, number: int) -> None:
    session.ask(LOAD, {"kind": KIND, "queue": QUEUE, "args": ARGS, "number": number})
    if number > BATCH:
        session.ask("analyze")
