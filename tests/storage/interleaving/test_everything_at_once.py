"""Everybody at once: nobody is deadlocked, nothing fails that may not, and every job ends exactly once."""

import random
from datetime import UTC, datetime, timedelta
from random import Random
from time import monotonic
from typing import Any

import psycopg
import pytest

from holdfast.storage import operators, runs
from holdfast.storage.runs import Retention
from storage.interleaving.actor_threads import KINDS, QUEUES, UNKNOWN, MakeActor, Town, at_once, connect
from storage.interleaving.actors import Caller, Leader, Operator, Worker
from storage.interleaving.prepared_jobs import DONE
from storage.interleaving.session import Party
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


def drain(party: Party) -> None:
    """Callers and operators have gone, days pass, and a worker that knows everything ends what is left."""
    party.now = datetime.now(UTC)
    kinds = (*KINDS, UNKNOWN)
    worker = party.worker(queues=QUEUES, kinds=kinds)
    deadline = monotonic() + 60
    for queue in QUEUES:
        party.run(operators.resume(SCHEMA, queue=queue))
    while not is_drained(party):
        assert monotonic() < deadline, f"nobody can end these: {left(party)}"
        party.pass_time(timedelta(days=1))
        party.renew(worker)
        party.mark_lost()
        party.rescue()
        party.promote(limit=1_000)
        party.expire()
        party.unpark()
        for queue in QUEUES:
            claimed = party.claim(worker, queue=queue, kinds=kinds, limit=500)
            batch = [runs.Settlement(worker, row.job or 0, row.run, DONE) for row in claimed]
            party.run(runs.settle(SCHEMA, batch, now=party.now, retention=Retention()))


def is_drained(party: Party) -> bool:
    places = ("ready", "scheduled", "lease")
    query = " and ".join(f"not exists (select from holdfast.{place})" for place in places)
    return bool(scalar(party.connection, f"select {query}"))


def left(party: Party) -> list[tuple[Any, ...]]:
    query = """
        select job, 'ready' as place, segment::bigint as who, deadline_at as until from holdfast.ready
        union all select job, 'scheduled', null, run_at from holdfast.scheduled
        union all select job, 'lease', worker, timeout_at from holdfast.lease
         limit 10"""
    return party.connection.execute(query).fetchall()


def scalar(connection: psycopg.Connection[Any], query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.requirement("S0.3", "S1.3", "S2.11", "S2.13", "S3.6", "S3.24", "S4.9")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seconds", [8, pytest.param(60, marks=pytest.mark.machine)])
def test_nobody_is_deadlocked_and_every_job_ends_exactly_once(dsn: str, seconds: int) -> None:
    town = Town()
    with connect(dsn) as connection:
        connection.execute(WITNESS)
        with at_once(dsn, town, [(make, Random(random.random())) for make in CROWD]):
            town.stop.wait(seconds)
        assert town.errors == []
        party = Party(connection)
        party.plan()
        drain(party)
        endings = dict(
            connection.execute("select job, sum(endings)::int from witness group by job").fetchall()
        )
        assert {job: endings.get(job, 0) for job in town.asked if endings.get(job, 0) != 1} == {}
        assert set(endings) == town.asked, "somebody's rolled back job ran"
        assert flaws(connection) == {}
        assert max(town.settled.values()) == 1
        counted = "select runs from holdfast.tally union all select runs from holdfast.counter"
        ran = scalar(connection, "select sum(runs) from witness")
        assert scalar(connection, f"select sum(runs) from ({counted}) c") == ran
        query = "select deadlocks from pg_stat_database where datname = current_database()"
        assert scalar(connection, query) == 0
    assert len(town.asked) > 100
    assert town.done["truncate"] > 0, "the ring was turned and emptied meanwhile"
