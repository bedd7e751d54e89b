"""What a worker cannot run with is refused when its options are made."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, Beats, Retention, WorkerOptions
from holdfast.errors import InvalidInput

SECOND = timedelta(seconds=1)
CENTURIES = timedelta(days=100_000)
AS_LENGTH = 'write a length of time with its unit, such as "5m"'

BAD: list[tuple[dict[str, Any], str]] = [
    ({"queues": {}}, "a worker needs a queue: give queues="),
    ({"queues": ["mail"]}, r"queues is \['mail'\]: say how many jobs of each"),
    ({"queues": "mail"}, "queues is 'mail'"),
    ({"queues": 5}, "queues is 5"),
    ({"queues": {5: 5}}, "queue 5 must be text"),
    ({"queues": {"mail": 0}}, 'queue "mail" has 0 slots: give 1 to 100000'),
    ({"queues": {"mail": -1}}, "has -1 slots"),
    ({"queues": {"mail": True}}, "has True slots"),
    ({"queues": {"mail": "5"}}, "has '5' slots"),
    ({"queues": {"mail": 1.0}}, r"has 1\.0 slots"),
    ({"queues": {"mail": None}}, "has None slots"),
    ({"queues": {"mail": 100_001}}, "has 100001 slots"),
    ({"grace": 5}, f"grace is 5: {AS_LENGTH}"),
    ({"grace": None}, "grace is None"),
    ({"grace": "soon"}, "grace 'soon' is not a length of time"),
    ({"grace": -SECOND}, "grace is -1s: it must not be negative"),
    ({"grace": CENTURIES}, "grace is 100000d: the longest is"),
    ({"poll": 5.0}, f"poll is 5.0: {AS_LENGTH}"),
    ({"poll": "0s"}, "poll is 0s: it must be above 0"),
    ({"poll": -SECOND}, "poll is -1s"),
    ({"leader_lease": 10}, f"leader_lease is 10: {AS_LENGTH}"),
    ({"leader_lease": timedelta()}, "leader_lease is 0s: it must be above 0"),
    ({"leader_lease": CENTURIES}, "leader_lease is 100000d"),
    ({"beats": SECOND}, r"beats is .*: give Beats\(lease=…, interval=…\)"),
    ({"beats": None}, "beats is None"),
    ({"beats": Beats(30, 5)}, f"beats.lease is 30: {AS_LENGTH}"),  # type: ignore[arg-type]  # its point
    ({"beats": Beats(SECOND, timedelta())}, r"beats\.interval is 0s"),
    ({"beats": Beats(SECOND, -SECOND)}, r"beats\.interval is -1s"),
    ({"beats": Beats(SECOND, SECOND)}, "a lease must last at least two"),
    ({"retention": "30d"}, r"retention is '30d': give Retention\(succeeded=…, dead=…, other=…\)"),
    ({"retention": Retention(dead=30)}, f"retention.dead is 30: {AS_LENGTH}"),  # type: ignore[arg-type]  # too
    ({"retention": Retention(other=-SECOND)}, r"retention\.other is -1s: it must not be negative"),
    ({"retention": Retention(CENTURIES)}, r"retention\.succeeded is 100000d: the longest is"),
    ({"is_leading_allowed": "no"}, "is_leading_allowed is 'no': give True or False"),
]


@pytest.mark.parametrize(("options", "says"), BAD)
def test_bad_options_are_refused_when_they_are_made(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        WorkerOptions(**options)
    with pytest.raises(InvalidInput, match=says):
        replace(WorkerOptions(), **options)


def test_lengths_are_written_with_their_unit_or_given_as_a_timedelta() -> None:
    written = WorkerOptions(grace="1m 30s", poll="500ms", leader_lease="2s")
    given = WorkerOptions(
        grace=timedelta(seconds=90), poll=timedelta(milliseconds=500), leader_lease=timedelta(seconds=2)
    )
    assert written == given
    assert WorkerOptions(grace="0s").grace == timedelta()


def test_what_happens_to_the_mapping_afterwards_changes_no_options() -> None:
    queues = {"mail": 2}
    options = WorkerOptions(queues=queues)
    queues.clear()
    assert options.queues == {"mail": 2}


@pytest.mark.parametrize("options", [5, {"queues": {"mail": 1}}, WorkerOptions])
async def test_a_worker_takes_no_other_options(options: Any) -> None:
    app = App("postgresql://127.0.0.1:1/nowhere")

    @app.job
    async def work() -> None: ...

    with pytest.raises(InvalidInput, match=r"options is .*: give WorkerOptions\("):
        async with app.worker(options=options):
            pytest.fail("it has started")
