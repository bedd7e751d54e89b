"""All actors at once: no deadlock, no unexpected error, and every job ends exactly once."""

import random
from datetime import UTC, datetime, timedelta
from random import Random
from time import monotonic
from typing import Any

import psycopg
import pytest

from holdfast.domain.retention import Retention
from holdfast.storage import operators, runs
from storage.interleaving.actor_threads import (
    KINDS,
    QUEUES,
    UNKNOWN,
    MakeActor,
    SharedRecord,
    at_once,
    connect,
)
from storage.interleaving.actors import Caller, Leader, Operator, Worker
from storage.interleaving.prepared_jobs import DONE
from storage.interleaving.session import Session
from storage.interleaving.table_invariants import flaws
from support.engine import SCHEMA

CROWD: list[MakeActor] = [Caller] * 4 + [Worker] * 4 + [Operator] * 2 + [Leader] * 2

# Prune deletes what the ledger says: a copy of each line, and of each ending that a resume took back.
WITNESS = """
create table witness (job bigint not null, endings int not null, runs int not null);
create function witness() returns trigger language plpgsql as $$
begin
  insert into witness values (
    new.job, new.is_final::int - (tg_op = 'UPDATE' and old.is_final)::int, (tg_op = 'INSERT')::int);
  return null;
end $$;
create trigger witness after insert or update on holdfast.ledger for each row execute function witness();
"""


def drain(session: Session) -> None:
    """Callers and operators have stopped, days pass, and a worker that knows every kind ends what is left."""
    session.now = datetime.now(UTC)
    kinds = (*KINDS, UNKNOWN)
    worker = session.worker(queues=QUEUES, kinds=kinds)
    deadline = monotonic() + 60
    for queue in QUEUES:
        session.run(operators.resume(SCHEMA, queue=queue))
    while not is_drained(session):
        assert monotonic() < deadline, f"no worker can end these: {left(session)}"
        session.pass_time(timedelta(days=1))
        session.renew(worker)
        session.mark_lost()
        session.rescue()
        session.promote(limit=1_000)
        session.expire()
        session.unpark()
        for queue in QUEUES:
            claimed = session.claim(worker, queue=queue, kinds=kinds, limit=500)
            batch = [runs.Settlement(worker, row.job or 0, row.run, DONE) for row in claimed]
            session.run(runs.settle(SCHEMA, batch, now=session.now, retention=Retention()))


def is_drained(session: Session) -> bool:
    places = ("ready", "scheduled", "lease")
    query = " and ".join(f"not exists (select from holdfast.{place})" for place in places)
    return bool(scalar(session.connection, f"select {query}"))


def left(session: Session) -> list[tuple[Any, ...]]:
    query = """
        select job, 'ready' as place, segment::bigint as who, deadline_at as until from holdfast.ready
        union all select job, 'scheduled', null, run_at from holdfast.scheduled
        union all select job, 'lease', worker, timeout_at from holdfast.lease
         limit 10"""
    return session.connection.execute(query).fetchall()


def scalar(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.requirement("S0.3", "S1.3", "S2.11", "S2.13", "S3.6", "S3.24", "S4.9")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", [8, pytest.param(60, marks=pytest.mark.machine)])
def test_no_actor_is_deadlocked_and_every_job_ends_exactly_once(dsn: str, seconds: int) -> None:
    record = SharedRecord()
    with connect(dsn) as connection:
        connection.execute(WITNESS)
        with at_once(dsn, record, [(make, Random(random.random())) for make in CROWD]):
            record.stop.wait(seconds)
        assert record.errors == []
        session = Session(connection)
        session.plan()
        drain(session)
        endings = dict(
            connection.execute("select job, sum(endings)::int from witness group by job").fetchall()
        )
        assert {job: endings.get(job, 0) for job in record.asked if endings.get(job, 0) != 1} == {}
        assert set(endings) == record.asked, "a job ran although its enqueue was rolled back"
        assert flaws(connection) == {}
        assert max(record.settled.values()) == 1
        counted = "select runs from holdfast.tally union all select runs from holdfast.counter"
        ran = scalar(connection, "select sum(runs) from witness")
        assert scalar(connection, f"select sum(runs) from ({counted}) c") == ran
        query = "select deadlocks from pg_stat_database where datname = current_database()"
        assert scalar(connection, query) == 0
    assert len(record.asked) > 100
    assert record.done["truncate"] > 0, "the ring was turned and emptied meanwhile"
