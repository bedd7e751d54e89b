"""`holdfast stats`: figures as tables and as JSON."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.cli.stats_output import _about
from holdfast.domain.failure import Failure
from holdfast.domain.job import Policy
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob, FailJob
from holdfast.storage.chores import fold
from holdfast.storage.runs import Settlement, settle
from holdfast.storage.statistics import count_enqueued, enqueue_top
from support.engine import SCHEMA, Engine

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def counted(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three mails that were sent, a payment that failed, a mail that waits. On the database's own clock, but
    with moments of our own: each run waited for 2 s and took 1 s.
    """
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    with Engine.on(dsn, now=None) as engine:
        worker = engine.worker(queues=("mail", "money"), kinds=("send", "charge"))
        for kind, queue in (("send", "mail"),) * 3 + (("charge", "money"),):
            engine.enqueue(Policy(kind, queue=queue))
        for queue in ("mail", "money"):
            claimed = engine.claim(worker, queue=queue, kinds=("send", "charge"))
            engine.connection.execute(
                "update holdfast.lease"
                "   set ready_at = now() - interval '3 s', started_at = now() - interval '1 s'"
            )
            end = CompleteJob(None, None) if queue == "mail" else FailJob(Failure("no"))
            settlements = [Settlement(worker, run.job or 0, run.run, end) for run in claimed]
            engine.run(settle(SCHEMA, settlements, retention=Retention()))
        engine.enqueue(Policy("send", queue="mail"))
        top = engine.one(enqueue_top(SCHEMA))
        engine.run(count_enqueued(SCHEMA, mark=top.mark, top=top.top))
        engine.run(fold(SCHEMA))


def told(capsys: Captured, *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["stats", *arguments]) == code
    return capsys.readouterr().out


def told_json(capsys: Captured, *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--json"))


def test_figures_are_shown_by_kind_and_by_queue(counted: None, capsys: Captured) -> None:
    title, empty, *lines = told(capsys).splitlines()
    assert re.fullmatch(r"from \d{4}-\d\d-\d\d \d\d:\d\d:00 to \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", title)
    assert empty == ""
    assert lines[:5] == [
        (
            "KIND    ENQUEUED  STARTED  SUCCEEDED  RETRIED  FAILED  OTHER  "
            "WAIT P50  WAIT P95  WAIT P99  RUN P50  RUN P95  RUN P99"
        ),
        (
            "send    4         3        3          0        0       0      "
            "2.1s      2.1s      2.1s      1.0s     1.0s     1.0s"
        ),
        (
            "charge  1         1        0          0        1       0      "
            "2.1s      2.1s      2.1s      1.0s     1.0s     1.0s"
        ),
        (
            "all     5         4        3          0        1       0      "
            "2.1s      2.1s      2.1s      1.0s     1.0s     1.0s"
        ),
        "",
    ]
    queues = [re.sub(r"  (\d+m?s)  ", r"  SOON  ", line).split() for line in lines[5:]]
    assert queues == [
        ["QUEUE", "WAITING", "DUE", "FOR", "RUNNING", "WORKERS", "ENQUEUED", "ENDED", "WAIT", "P95"],
        ["mail", "1", "SOON", "0", "1", "4", "3", "2.1s"],
        ["money", "0", "0", "1", "1", "1", "2.1s"],
    ]


def test_json_has_the_figures_and_the_depths(counted: None, capsys: Captured) -> None:
    found = told_json(capsys, "--since", "15m")
    assert set(found) == {
        *("since", "until", "resolution", "total", "points", "queues", "kinds", "now"),
        "depths",
    }
    assert found["resolution"] == 60
    assert len(found["points"]) == 16
    total = found["total"]
    assert (total["enqueued"], total["started"]) == (5, 4)
    assert total["outcomes"] == {"failed": 1, "succeeded": 3}
    assert total["wait"] == {
        "runs": 4,
        "mean": pytest.approx(2),
        "p50": 2.0736,
        "p95": 2.0736,
        "p99": 2.0736,
        "histogram": [[2.0736, 4]],
    }
    assert [(each["name"], each["waiting"]) for each in found["depths"]] == [("mail", 1), ("money", 0)]


def test_figures_are_narrowed_to_a_queue_and_a_kind(counted: None, capsys: Captured) -> None:
    text = told(capsys, "--queue", "money")
    assert "charge" in text
    assert "send" not in text
    assert "mail" not in text
    assert told_json(capsys, "--kind", "send")["total"]["outcomes"] == {"succeeded": 3}
    assert told_json(capsys, "--queue", "nothing")["total"]["outcomes"] == {}
    assert "nothing has happened in this time" in told(capsys, "--queue", "nothing")
    for over_time in ((), ("--over-time",)):
        assert told(capsys, "--queue", "mial", *over_time).endswith(
            'no job, setting, schedule or worker knows the queue "mial"; did you mean "mail"?\n'
        )
    assert 'no worker has declared a kind "sned"' in told(capsys, "--kind", "sned")


def test_figures_are_shown_over_time(counted: None, capsys: Captured) -> None:
    lines = told(capsys, "--over-time", "--since", "2h", "--resolution", "1h").splitlines()
    assert lines[2].startswith("FROM (UTC)           ENQUEUED")
    assert len(lines) == 6
    assert sum(int(line.split()[2]) for line in lines[3:]) == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--since", "91d"), "since is 91d: give a length from 1m to 90d"),
        (("--since", "soon"), "'soon' is not a length of time"),
        (("--since", "7d", "--resolution", "1m"), "so give a resolution of 1h or more"),
    ],
)
def test_wrong_options_are_a_wrong_usage(
    counted: None, capsys: Captured, arguments: tuple[str, ...], said: str
) -> None:
    assert main(["stats", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0001, "<1ms"), (0.0014, "1.4ms"), (0.0994, "99ms"), (1.44, "1.4s"), (41.3, "41s"), (4000, "1h 6m")],
)
def test_a_length_is_told_as_exactly_as_a_bucket_knows_it(seconds: float, text: str) -> None:
    assert _about(timedelta(seconds=seconds)) == text
