"""Slots of a queue without choosing queues, and what a worker says of its queues at its start."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast import App
from holdfast.cli.working import Wishes
from holdfast.errors import InvalidInput


def shop(**settings: Any) -> App:
    app = App("postgresql:///nowhere", **settings)

    @app.job(queue="mail")
    async def send() -> None: ...

    @app.job(queue="pdf")
    async def draw() -> None: ...

    return app


def test_slots_are_set_without_choosing_queues() -> None:
    options = shop(slots={"pdf": 2})._worker_options(None, None)  # no worker is started
    assert options.queues == {"mail": 100, "pdf": 2}


@pytest.mark.parametrize("slots", [{"pdf": 0}, {"pdf": "2"}, ["pdf"]])
def test_slots_that_cannot_be_are_refused_at_once(slots: Any) -> None:
    with pytest.raises(InvalidInput, match="slots"):
        App("postgresql:///nowhere", slots=slots)


async def test_a_worker_says_what_is_odd_about_its_queues(caplog: pytest.LogCaptureFixture) -> None:
    await shop(slots={"pfd": 2})._worker({"mial": 1, "pdf": 1}, None, None)  # as above
    assert caplog.messages == [
        'no job of this app names the queue "mial"; did you mean "mail"?',
        'slots are set for the queue "pfd", which this worker does not serve; did you mean "pdf"?',
        "queues of this app that this worker leaves out: mail",
    ]


def test_the_command_line_sets_slots_over_those_of_the_app() -> None:
    minute = timedelta(minutes=1)
    wishes = Wishes(queues=None, slots={"pdf": 3}, grace=minute, lease=minute, once=False)
    assert wishes.options(shop(slots={"pdf": 2, "mail": 7})).queues == {"mail": 7, "pdf": 3}
