"""WAL from enqueue to settled, record by record, so that full-page images can be told apart.

How many of those there are depends on how often the server takes a checkpoint, not on us. Everything else
in the log between begin and end counts: commits, the ring's chores, folding, vacuum if it comes along.
"""

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.leader import Leader
from benchmarks.session import BATCH, Session

_POSITION = "select pg_current_wal_insert_lsn()::text"
_SIZES = """
select sum(record_size)::float8, sum(fpi_size)::float8
  from pg_get_wal_stats(%s::text::pg_lsn, %s::text::pg_lsn, false)
"""


def wal(bench: Bench) -> Iterator[Figure]:
    number = bench.scale.wal_jobs
    with bench.database() as dsn, Session.on(dsn) as session, Leader(dsn) as leader:
        session.ask("create extension pg_walinspect")
        worker = session.worker()
        [(begin,)] = session.ask(_POSITION)
        for done in range(0, number, BATCH):
            session.enqueue(BATCH)
            session.settle(worker, session.claim(worker))
            if done % 5_000 == 0:
                leader.once()
        [(end,)] = session.ask(_POSITION)
        [(records, images)] = session.ask(_SIZES, (begin, end))
    bench.say(f"wal: {records / number:,.0f} B per job")
    yield Figure(
        "wal",
        "WAL from enqueue to settled, per job",
        records / number,
        Target("at_most", 1_200, "B"),
        f"batches of {BATCH}, {number:,} jobs; full-page images apart ({images / number:,.0f} B)",
    )
