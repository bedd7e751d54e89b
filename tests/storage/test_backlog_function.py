"""holdfast.backlog in SQL: the number that autoscalers ask for."""

from collections.abc import Iterator

import psycopg
import pytest

from holdfast.domain.job import Policy
from support.engine import Engine


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with Engine.on(dsn, now=None) as engine:
        yield engine


def backlog(engine: Engine, arguments: str = "'mail'") -> int:
    [(jobs,)] = engine.connection.execute(f"select holdfast.backlog({arguments})")
    return int(jobs)


def put(engine: Engine, number: int, queue: str = "mail") -> None:
    for n in range(number):
        engine.enqueue(Policy("send", queue=queue), {"n": n})


def test_it_counts_the_ready_jobs_of_one_queue(engine: Engine) -> None:
    put(engine, 3)
    put(engine, 2, "pdf")
    assert backlog(engine) == 3
    assert backlog(engine, "'pdf'") == 2
    assert backlog(engine, "'nothing'") == 0


def test_it_stops_counting_at_the_number_that_was_given(engine: Engine) -> None:
    put(engine, 3)
    assert backlog(engine, "'mail', up_to => 2") == 2
    assert backlog(engine, "'mail', up_to => 0") == 0


@pytest.mark.parametrize(
    ("until", "counted"), [("null", 0), ("now() + interval '1 hour'", 0), ("now() - interval '1 hour'", 3)]
)
def test_nothing_counts_while_the_queue_is_paused(engine: Engine, until: str, counted: int) -> None:
    put(engine, 3)
    engine.connection.execute(
        f"insert into holdfast.queue (name, paused_at, paused_until) values ('mail', now(), {until})"
    )
    assert backlog(engine) == counted


def test_parked_jobs_and_those_past_their_deadline_do_not_count(engine: Engine) -> None:
    put(engine, 4)
    engine.connection.execute("update holdfast.ready set segment = 9 where job = 1")
    engine.connection.execute("update holdfast.ready set deadline_at = now() where job = 2")
    assert backlog(engine) == 2


def test_running_jobs_count_if_they_are_asked_for(engine: Engine) -> None:
    put(engine, 3)
    put(engine, 1, "pdf")
    worker = engine.worker(queues=("mail",), kinds=("send",))
    engine.claim(worker, queue="mail", kinds=("send",), limit=2)
    assert backlog(engine) == 1
    assert backlog(engine, "'mail', with_running => true") == 3
    assert backlog(engine, "'mail', 2, true") == 2


def test_it_may_be_asked_where_nothing_may_be_written(engine: Engine, dsn: str) -> None:
    put(engine, 1)
    with psycopg.connect(dsn) as reader:
        reader.execute("set transaction read only")
        assert reader.execute("select holdfast.backlog('mail')").fetchone() == (1,)
