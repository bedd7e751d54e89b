"""The last word: what was asked for, what became of it, and that nothing is missing."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demo.verdict import Verdict


def print_summary(console: Console, verdict: Verdict) -> None:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in _rows(verdict):
        table.add_row(name, text)
    console.print()
    console.print(table, highlight=False, soft_wrap=not console.is_terminal)


def _rows(verdict: Verdict) -> list[tuple[str, Text]]:
    v = verdict
    rows = [
        ("Orders", Text(f"{v.placed} placed; {v.rolled_back} rolled back, {_no_jobs(v)}")),
        ("Jobs", Text(f"{v.enqueued} enqueued, {v.succeeded} succeeded, {_dead(v)}{_waiting(v)}{_fired(v)}")),
        (
            "On the way",
            Text(f"{v.retried} retried, {v.snoozed} snoozed, {v.rescued} rescued from a killed worker"),
        ),
    ]
    rows += [
        ("Needs you", Text(f"{kind} of order {order}: {message}", "red")) for kind, order, message in v.dead
    ]
    paid = f"booked exactly once: {v.orders_paid} of {v.placed}"
    twice = f", {v.payments - v.orders_paid} booked twice" if v.payments != v.orders_paid else ""
    rows.append(("Payments", Text(paid + twice, "green" if v.is_each_paid_once else "bold red")))
    rows.append(("Deliveries", Text(_flows(v), "green" if v.flows_wrong == 0 else "bold red")))
    rows.append(("Schedules", Text(_schedules(v), "green" if v.is_each_counted_once else "bold red")))
    rows.append(("Label printer", Text(_labels(v), "green" if v.labels_at_once <= 1 else "bold red")))
    rows.append(("In the end", Text(f"{v.lost} lost", "green" if v.lost == 0 else "bold red")))
    return rows


def _flows(verdict: Verdict) -> str:
    """Flows that were killed between two steps go on with the next."""
    v = verdict
    once = "each step once" if v.flows_wrong == 0 else f"{v.flows_wrong} with a step missing or done twice"
    resumed = f"; {v.flows_resumed} resumed after a kill" if v.flows_resumed else ""
    return f"{v.flows_done} of {v.flows} flows shipped, {once}{resumed}"


def _schedules(verdict: Verdict) -> str:
    once = "once" if verdict.is_each_counted_once else "not just once"
    late = (
        "" if verdict.closed_late is None else f"; books closed {verdict.closed_late.seconds // 3600} h late"
    )
    return f"stock counted {verdict.counts} times, {once} for each plan{late}"


def _labels(verdict: Verdict) -> str:
    """The printer takes one label at a time, whichever worker it comes from."""
    at_once = "never two at once" if verdict.labels_at_once <= 1 else f"{verdict.labels_at_once} at once"
    return f"{verdict.labels} labels, {at_once}: a limit of 1 over both workers"


def _no_jobs(verdict: Verdict) -> str:
    left = verdict.jobs_of_rolled_back
    return f"{left} of their jobs exist all the same" if left else "and none of their jobs exists"


def _dead(verdict: Verdict) -> str:
    return f"{len(verdict.dead)} dead"


def _waiting(verdict: Verdict) -> str:
    return f", {verdict.waiting} not finished" if verdict.waiting else ""


def _fired(verdict: Verdict) -> str:
    """The counts that were shown on the way have these, too."""
    return f"; {verdict.fired} more by schedules" if verdict.fired else ""
