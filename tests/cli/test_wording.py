"""Operators at a terminal read what the command line calls things, not what Python calls them."""

import re

import pytest

from holdfast.cli import main
from holdfast.cli.wording import spoken
from holdfast.errors import ScheduleNotFound, WorkerNotFound

Captured = pytest.CaptureFixture[str]
PYTHON = re.compile(r"=True|\bapp\.|use force|\(\)")


@pytest.mark.parametrize(
    ("arguments", "code", "advice"),
    [
        (["queues", "pause", "mial"], 3, "give --create to pause it before its first job"),
        (["queues", "resume", "mial"], 3, 'see "holdfast queues list" for those that there are'),
        (["enqueue", "chrage"], 3, "give --force to enqueue it all the same"),
        (["kinds", "show", "chrage"], 3, 'see "holdfast kinds list" for those that are known'),
        (["workers", "show", "7"], 3, 'see "holdfast workers list"'),
        (["schedules", "show", "daily"], 3, 'see what there is with "holdfast schedules list"'),
        (["failures", "show", ""], 2, 'give one that "holdfast failures list" shows'),
        (["failures", "purge", "", "--yes"], 2, 'give one that "holdfast failures list" shows'),
        (["jobs", "list", "--after", "nonsense"], 2, ""),
        (["jobs", "move", "1", "--to", "mial"], 3, "give --create if workers will serve it later"),
        (["operations", "show", "7"], 3, "there is no operation 7"),
        (["flows", "show", "7"], 3, ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_error_advises_in_the_words_of_the_command_line(
    dsn: str, arguments: list[str], code: int, advice: str, capsys: Captured
) -> None:
    assert main([*arguments, "--dsn", dsn]) == code
    err = capsys.readouterr().err
    assert advice in err
    assert not PYTHON.search(err.replace(dsn, "")), err


def test_advice_that_names_both_keeps_one_of_them() -> None:
    assert "holdfast schedules list" in spoken(str(ScheduleNotFound("daily")))
    for error in (ScheduleNotFound("daily"), WorkerNotFound(7)):
        assert "app." in str(error), "in Python it is said as Python has it"
        assert "app." not in spoken(str(error))
    advice = "It goes on when app.emit() or holdfast flows emit sends the event."
    assert spoken(advice) == "It goes on when holdfast flows emit sends the event."
