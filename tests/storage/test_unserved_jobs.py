"""Jobs and schedules of a queue or kind that no live worker serves are listed."""

from datetime import timedelta

from holdfast.domain.job import Policy
from holdfast.domain.timing import Every
from holdfast.storage import operators, schedules, workers
from holdfast.storage.unserved import Unserved, known_names, unserved
from support.engine import SCHEMA, Engine


def waiting(engine: Engine) -> list[Unserved]:
    return engine.run(unserved(SCHEMA, now=engine.now))


def test_jobs_whose_queue_or_kind_no_live_worker_serves_are_found(engine: Engine) -> None:
    for queue, kind in (("default", "mail"), ("default", "mial"), ("defualt", "mail"), ("default", "pay")):
        engine.enqueue(Policy(kind, queue=queue))
    assert waiting(engine) == [], "no worker is alive: theirs will come back"
    engine.worker()
    assert waiting(engine) == [
        (None, "default", "mial", True, False, False),
        (None, "default", "pay", True, False, False),
        (None, "defualt", "mail", False, True, False),
    ]
    engine.worker(queues=("pay",), kinds=("pay",))
    assert (None, "default", "pay", True, True, False) in waiting(engine), "known, but not in this queue"
    assert engine.one(known_names(SCHEMA, now=engine.now)) == (["default", "pay"], ["mail", "pay"])
    engine.pass_time(workers.LEASE)
    assert waiting(engine) == []


def test_parked_jobs_count_and_paused_queues_do_not(engine: Engine) -> None:
    engine.worker()
    engine.enqueue(Policy("mial"))
    engine.connection.execute("update holdfast.ready set segment = 9")
    assert waiting(engine) == [(None, "default", "mial", True, False, False)]
    engine.run(operators.pause(SCHEMA, queue="default", now=engine.now))
    assert waiting(engine) == []


def test_a_schedule_whose_kind_no_live_worker_knows_is_found_while_it_fires(engine: Engine) -> None:
    new = schedules.NewSchedule("report", Every(timedelta(hours=1)), Policy("reprot"))
    engine.hold(schedules.put_whole(SCHEMA, new, schedules.WHOLE_APP, is_declared=False, now=engine.now))
    engine.connection.execute("update holdfast.schedule_scope set next_at = now()")
    engine.worker()
    assert waiting(engine) == [("report", None, "reprot", False, False, False)]
    assert not engine.one(schedules.find(SCHEMA, "report", now=engine.now)).is_kind_known
    engine.worker(kinds=("reprot",))
    assert waiting(engine) == []
    assert engine.one(schedules.find(SCHEMA, "report", now=engine.now)).is_kind_known


def test_a_worker_that_is_quiet_or_stopping_serves_nothing(engine: Engine) -> None:
    engine.enqueue(Policy("mail"))
    engine.worker()
    for activity in ("quiet", "stopping"):
        engine.connection.execute("update holdfast.worker set activity = %s", (activity,))
        assert waiting(engine) == [(None, "default", "mail", False, False, True)]
    engine.worker()
    assert waiting(engine) == [], "another one serves"
