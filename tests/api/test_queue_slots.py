"""Slots of a queue without choosing queues, and what a worker says of its queues at its start."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast import App, WorkerOptions
from holdfast.cli.worker_arguments import WorkerArguments
from holdfast.errors import InvalidInput


def shop(**settings: Any) -> App:
    app = App("postgresql:///nowhere", **settings)

    @app.job(queue="mail")
    async def send() -> None: ...

    @app.job(queue="pdf")
    async def draw() -> None: ...

    return app


def test_slots_are_set_without_choosing_queues() -> None:
    """Those of a worker win over those of the app, and what is said with a queue over both."""
    app = shop(slots={"pdf": 2, "mail": 7})
    assert app._worker_maker.options(None, None, None).queues == {"mail": 7, "pdf": 2}  # no worker is started
    assert app._worker_maker.options(None, {"pdf": 3}, None).queues == {"mail": 7, "pdf": 3}
    assert app._worker_maker.options(["pdf"], None, None).queues == {"pdf": 2}
    assert app._worker_maker.options(["pdf", "other"], {"pdf": 3}, None).queues == {"pdf": 3, "other": 100}
    assert app._worker_maker.options({"pdf": 5}, {"pdf": 3}, None).queues == {"pdf": 5}


@pytest.mark.parametrize("queues", ["pdf", [1], 5, []])
def test_queues_are_given_as_names_or_with_their_slots(queues: Any) -> None:
    with pytest.raises(InvalidInput, match="queue"):
        shop()._worker_maker.options(queues, None, None)


@pytest.mark.parametrize("slots", [{"pdf": 0}, {"pdf": "2"}, ["pdf"]])
def test_slots_that_cannot_be_are_refused_at_once(slots: Any) -> None:
    with pytest.raises(InvalidInput, match="slots"):
        App("postgresql:///nowhere", slots=slots)
    with pytest.raises(InvalidInput, match="slots"):
        shop()._worker_maker.options(None, slots, None)


async def test_slots_are_part_of_options_where_these_are_given() -> None:
    with pytest.raises(InvalidInput, match="part of WorkerOptions"):
        await shop().run_worker(slots={"pdf": 2}, options=WorkerOptions())


async def test_slots_of_the_app_for_a_queue_that_another_worker_serves_are_not_odd(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await shop(slots={"pdf": 2})._worker_maker.make(["mail"], None, None, None)
    assert caplog.messages == ["queues of this app that this worker leaves out: pdf"]
    caplog.clear()
    await shop()._worker_maker.make(["mail"], {"pdf": 2}, None, None)
    assert 'slots are set for the queue "pdf", which this worker does not serve' in caplog.messages


async def test_a_worker_says_what_is_odd_about_its_queues(caplog: pytest.LogCaptureFixture) -> None:
    await shop(slots={"pfd": 2})._worker_maker.make({"mial": 1, "pdf": 1}, None, None, None)  # as above
    assert caplog.messages == [
        'no job of this app names the queue "mial"; did you mean "mail"?',
        'slots are set for the queue "pfd", which this worker does not serve; did you mean "pdf"?',
        "queues of this app that this worker leaves out: mail",
    ]


def test_the_command_line_sets_slots_over_those_of_the_app() -> None:
    minute = timedelta(minutes=1)
    arguments = WorkerArguments(queues=None, slots={"pdf": 3}, grace=minute, lease=minute, once=False)
    assert arguments.options(shop(slots={"pdf": 2, "mail": 7})).queues == {"mail": 7, "pdf": 3}
    for asked, chosen in ((None, 3), (9, 9)):
        arguments = WorkerArguments(
            queues={"pdf": asked}, slots={"pdf": 3}, grace=minute, lease=minute, once=False
        )
        assert arguments.options(shop(slots={"pdf": 2, "mail": 7})).queues == {"pdf": chosen}
