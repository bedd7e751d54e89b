"""Called as functions, jobs, flows and machines say how they are enqueued, and what to call instead."""

import re
from typing import Any

import pytest

from holdfast import App, Done, Flow, Machine, Step
from holdfast.errors import InvalidInput

app = App("postgresql://nowhere/none")


@app.job
def send_mail(user: int) -> str:
    return f"mailed {user}"


@app.flow
async def fulfil(flow: Flow, order: int) -> None: ...


@app.machine
class Import(Machine[None]):
    class Download(Step):
        url: str

        async def run(self) -> Done[None]:
            return Done(None)


@pytest.mark.parametrize(
    ("called", "problem"),
    [
        (lambda: send_mail(7), "send_mail is a job, .* send_mail.enqueue(…), .* send_mail.function(…)"),  # type: ignore[operator]
        (send_mail, "send_mail is a job, .* send_mail.enqueue(…), .* send_mail.function(…)"),
        (lambda: send_mail.using(delay="1m")(7), "send_mail.enqueue(…)"),  # type: ignore[operator]
        (lambda: fulfil(7), "fulfil is a flow, .* fulfil.enqueue(…), .* fulfil.function(…)"),  # type: ignore[operator]
        (lambda: Import(Import.Download("x")), "Import is a machine, .* Import.enqueue(Import.…)"),  # type: ignore[call-arg]
        (Import, "Import is a machine, .* run() of a step"),
    ],
)
def test_a_call_names_what_to_write(called: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=re.escape(problem).replace(r"\.\*", ".*").replace(r"\ ", " ")):
        called()


def test_the_function_itself_can_be_called() -> None:
    assert send_mail.function(7) == "mailed 7"


def test_a_job_is_no_hook() -> None:
    with pytest.raises(InvalidInput, match="on_failure is <Job send_mail>: give a function that takes"):
        app.job(on_failure=send_mail)  # type: ignore[call-overload]  # its point
