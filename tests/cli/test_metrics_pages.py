"""The reference page, the dashboard and the alert rules name the metrics of a real scrape, and no others."""

import json
import re
from collections.abc import Iterator

import psycopg
import pytest

from cli.scrapes import asked, port_of
from cli.worker_processes import Start, enqueue, reach
from holdfast.metrics.catalogue import METRICS, OF_DATABASE, OF_PROCESSES, Metric
from support.doc_examples import DOCS

PAGE = (DOCS / "reference/metrics.md").read_text("utf-8")
ALERTS = (DOCS / "monitoring/holdfast-alerts.yml").read_text("utf-8")
DASHBOARD = json.loads((DOCS / "monitoring/holdfast-dashboard.json").read_text("utf-8"))
ROW = re.compile(r"^\| `(holdfast_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
USED = re.compile(r"\bholdfast_\w+")
BY = re.compile(r"(?:by|on) \(([\w, ]+)\)")
MATCHED = re.compile(r"(holdfast_\w+)\{([^}]*)\}")


def expressions() -> Iterator[str]:
    """Of every alert and every panel."""
    yield from re.findall(r"^ +expr: (?:\|\n)?((?:.*\n)(?: {10}.*\n)*)", ALERTS, re.MULTILINE)
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    yield from (each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query")


@pytest.mark.parametrize(
    ("heading", "metrics"),
    [("Counted in the processes of a port", OF_PROCESSES), ("Asked of the database", OF_DATABASE)],
)
def test_the_page_describes_every_metric_with_its_type_and_labels(
    heading: str, metrics: tuple[Metric, ...]
) -> None:
    [section] = re.findall(rf"^## {heading}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    described = {
        name: (type_, re.findall(r"`(\w+)`", labels)) for name, type_, labels in ROW.findall(section)
    }
    assert described == {each.name: (each.type, list(each.labels)) for each in metrics}


def test_the_dashboard_and_the_alerts_ask_only_for_what_a_worker_serves(
    start: Start, conn: psycopg.Connection
) -> None:
    worker = start("--metrics-port", "0")
    port = port_of(worker)
    worker.wait_for_log("worker started")
    reach(worker, conn, enqueue(conn, "send", "mail", number=1), "succeeded")
    text = asked(port, "/metrics")[1]
    served = set(re.findall(r"^(holdfast_\w+)", text, re.MULTILINE))
    served |= set(re.findall(r"^# TYPE (holdfast_\w+) (?:counter|gauge)", text, re.MULTILINE))
    used = {name for expression in expressions() for name in USED.findall(expression)}
    assert len(used) > 20
    assert used - served == set()


def test_they_group_and_choose_by_labels_that_there_are() -> None:
    labels = {each.name: {*each.labels, "instance", "le"} for each in METRICS}
    for expression in expressions():
        names = [re.sub(r"_(bucket|sum|count)$", "", name) for name in USED.findall(expression)]
        for group in BY.findall(expression):
            for name in names:
                assert set(group.split(", ")) <= labels[name], expression
        for name, chosen in MATCHED.findall(expression):
            found = set(re.findall(r"(\w+)=", chosen))
            assert found <= labels[re.sub(r"_(bucket|sum|count)$", "", name)], expression


def test_there_is_an_alert_for_each_thing_that_needs_one() -> None:
    alerts = set(re.findall(r"- alert: Holdfast(\w+)", ALERTS))
    assert {"NoWorker", "NoLeader", "OldestWaiting", "FailureRatio", "PlansMissed"} <= alerts
