"""Invariants of the tables after any history: each job is in exactly one place, and no row lacks its job."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg

# Each of these lists what should not be there.
FLAWS: dict[str, LiteralString] = {
    "jobs that are not in exactly one place": """
        select j.id, array_agg(p.place) filter (where p.place is not null)
          from holdfast.job j
          left join (select job, 'ready' as place from holdfast.ready
                     union all select job, 'scheduled' from holdfast.scheduled
                     union all select job, 'waiting' from holdfast.waiting
                     union all select job, 'lease' from holdfast.lease
                     union all select job, 'final' from holdfast.ledger where is_final) p on p.job = j.id
         group by j.id having count(p.place) <> 1""",
    "rows that wait or run without a job": """
        select job, place
          from (select job, 'ready' as place from holdfast.ready
                union all select job, 'scheduled' from holdfast.scheduled
                union all select job, 'waiting' from holdfast.waiting
                union all select job, 'lease' from holdfast.lease
                union all select job, 'dead' from holdfast.dead) p
         where not exists (select from holdfast.job j where j.id = p.job)""",
    "flows that wait for nothing, and waits of flows that do not": """
        select coalesce(w.job, a.job), w.job, a.name
          from holdfast.waiting w full join holdfast.wait a on a.job = w.job
         where w.job is null or a.job is null""",
    "leases without a worker": """
        select job, worker from holdfast.lease l
         where not exists (select from holdfast.worker w where w.id = l.worker)""",
    "dead that did not fail, and failed that are not dead": """
        select coalesce(d.job, f.job), d.run, f.run
          from holdfast.dead d
          full join (select l.job, l.run from holdfast.ledger l join holdfast.job j on j.id = l.job
                      where l.is_final and l.outcome = 'failed') f on f.job = d.job and f.run = d.run
         where d.job is null or f.job is null""",
    "active jobs that share a unique key, or do not hold theirs": """
        select j.id, j.queue, j.unique_key, k.job
          from holdfast.job j
          left join holdfast.unique_key k on k.queue = j.queue and k.key = j.unique_key
         where j.unique_key is not null and k.job is distinct from j.id
           and not exists (select from holdfast.superseded s where s.job = j.id)
           and not exists (select from holdfast.ledger l where l.job = j.id and l.is_final)""",
    "keys of which nothing will ever remind": """
        select k.queue, k.key, k.job
          from holdfast.unique_key k
         where k.until is null
           and not exists (select from holdfast.job j where j.id = k.job)
           and not exists (select from holdfast.ledger l where l.job = k.job and l.is_final)""",
}


def flaws(connection: psycopg.Connection[Any]) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that break an invariant, by its name; empty when all hold."""
    found = {name: connection.execute(query).fetchall() for name, query in FLAWS.items()}
    return {name: rows for name, rows in found.items() if rows}


@contextmanager
def sound_at_the_end(dsn: str) -> Iterator[None]:
    """At the end of a test, passed or failed: every invariant holds."""
    yield
    with psycopg.connect(dsn) as connection:
        assert flaws(connection) == {}
