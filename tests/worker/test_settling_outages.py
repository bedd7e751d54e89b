"""Whatever the database's trouble, and whenever it begins and ends around a settle: what was done stays done.
Only what is wrong with the data itself fails a run.
"""

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest

from holdfast.domain.failure import Failure
from holdfast.domain.retention import Retention
from holdfast.domain.transition import SUCCESS, CompleteJob, RetryJob, Transition
from holdfast.postgres.database import Database
from holdfast.storage.runs import Answer
from holdfast.worker import settler as settler_module
from holdfast.worker.claimed_run import ClaimedRun
from holdfast.worker.settler import RunEnding, Settler
from support.engine import SCHEMA, Engine
from support.outages import CODES, begin_outage, failures
from worker.handler_runs import Run


def nothing() -> None: ...


async def settled(
    dsn: str, engine: Engine, transitions: list[Transition], state: str | None = None
) -> list[str | None]:
    """What became of a batch of runs with these ends, once all of them are settled."""
    worker = engine.worker()
    jobs = [engine.enqueue() for _ in transitions]
    rows = engine.claim(worker)
    like = Run.of(nothing)
    told: dict[int, str | None] = {}

    def tell(ending: RunEnding, answer: Answer, outcome: str | None) -> None:
        told[ending.job] = outcome

    async with Database(dsn) as database:
        settler = Settler(database, SCHEMA, Retention())
        settling = asyncio.create_task(settler.run())
        for row, transition in zip(rows, transitions, strict=True):
            claimed = ClaimedRun(worker, "default", row, like.claimed.kind)
            settler.put(RunEnding.of(claimed, transition, like.context, tell, state))
        async with asyncio.timeout(60):
            await settler.drained()
        settling.cancel()
        await asyncio.wait([settling])
    assert settler.backlog == 0
    ends = ("succeeded", "failed")
    assert [engine.state(job) for job in jobs if told[job] in ends] == [s for s in told.values() if s in ends]
    return [told[job] for job in jobs]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settler_module, "_AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(settler_module, "_RETRY_SECONDS", 0.01)


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("times", [1, 2, 3, random.randint(4, 9)], ids=["1", "2", "3", "random"])
async def test_an_outage_that_ends_at_any_moment_leaves_a_success_a_success(
    dsn: str, code: str, times: int
) -> None:
    with Engine.on(dsn, now=None) as engine:
        begin_outage(engine.connection, "ledger", code, times)
        assert await settled(dsn, engine, [SUCCESS, CompleteJob('{"paid": 1}', None), SUCCESS]) == [
            "succeeded",
            "succeeded",
            "succeeded",
        ]
        assert failures(engine.connection) > times, "the outage was met"


def refuse_poison(engine: Engine, code: str) -> None:
    engine.connection.execute(
        f"""create function bad() returns trigger language plpgsql as $$ begin
            if concat(new.result, new.error) like '%poison%' then
                raise exception using errcode = '{code}';
            end if;
            return new;
        end $$;
        create trigger bad before insert on holdfast.ledger for each row execute function bad()"""
    )


@pytest.mark.parametrize("code", ["22P05", "23514", "54000"])
async def test_a_result_that_the_database_refuses_is_dropped_and_the_success_stays(
    dsn: str, code: str
) -> None:
    """A payment is not made again for its receipt."""
    with Engine.on(dsn, now=None) as engine:
        refuse_poison(engine, code)
        ends: list[Transition] = [SUCCESS, CompleteJob('"poison"', None), SUCCESS]
        assert await settled(dsn, engine, ends) == ["succeeded", "succeeded", "succeeded"]
        flags = engine.connection.execute("select flag from holdfast.ledger order by job").fetchall()
        assert flags == [(None,), ("result_unencodable",), (None,)]


@pytest.mark.parametrize("code", ["22P05", "23514", "54000"])
async def test_what_is_wrong_with_the_data_fails_its_run_alone_with_the_reason(dsn: str, code: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        refuse_poison(engine, code)
        ends: list[Transition] = [SUCCESS, RetryJob(timedelta(), Failure("poison", "handler_error")), SUCCESS]
        assert await settled(dsn, engine, ends) == ["succeeded", "failed", "succeeded"]
        errors = engine.connection.execute("select error from holdfast.ledger where outcome = 'failed'")
        [(error,)] = errors.fetchall()
        assert "could not be stored" in str(error)


async def test_what_cannot_even_be_sent_is_dropped_also_in_an_outage(dsn: str) -> None:
    unsendable: Any = object()
    with Engine.on(dsn, now=None) as engine:
        begin_outage(engine.connection, "ledger", "25006", 2)
        ends: list[Transition] = [SUCCESS, CompleteJob(unsendable, None), SUCCESS]
        assert await settled(dsn, engine, ends) == ["succeeded", "succeeded", "succeeded"]


async def test_one_row_that_only_its_database_refuses_is_kept_and_holds_up_no_other(dsn: str) -> None:
    """Such as by a trigger of the user's own: it is settled when that lets it."""
    with Engine.on(dsn, now=None) as engine:
        engine.connection.execute(
            """create sequence refusals;
            create function bad() returns trigger language plpgsql as $$ begin
                if new.result::text like '%poison%' and nextval('public.refusals') <= 5 then
                    raise exception 'not now';
                end if;
                return new;
            end $$;
            create trigger bad before insert on holdfast.ledger for each row execute function bad()"""
        )
        ends: list[Transition] = [SUCCESS, CompleteJob('"poison"', None), SUCCESS]
        assert await settled(dsn, engine, ends) == ["succeeded", "succeeded", "succeeded"]


async def test_a_batch_that_always_takes_too_long_is_written_in_smaller_ones(dsn: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        engine.connection.execute(
            """create function slow() returns trigger language plpgsql as $$ begin
                if (select count(*) from settled) > 2 then raise exception using errcode = '57014'; end if;
                return null;
            end $$;
            create trigger slow after insert on holdfast.ledger
                referencing new table as settled for each statement execute function slow()"""
        )
        assert await settled(dsn, engine, [SUCCESS] * 8) == ["succeeded"] * 8


@pytest.mark.parametrize("code", CODES)
async def test_the_state_of_a_run_survives_an_outage(dsn: str, code: str) -> None:
    """Its state is written first, and not left out because that failed."""
    with Engine.on(dsn, now=None) as engine:
        begin_outage(engine.connection, "saved", code, 2)
        again = RetryJob(timedelta(), Failure("later", "handler_error"))
        assert await settled(dsn, engine, [again], state='{"page": 7}') == ["retried"]
        [(state,)] = engine.connection.execute("select state from holdfast.saved").fetchall()
        assert state == {"page": 7}
