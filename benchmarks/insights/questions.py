"""What operators ask, each through an app, as the command line asks it."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from statistics import quantiles

from holdfast import App

FILTERS = (
    "",
    "state:ready",
    "state:ready queue:queue_3 kind:kind_5",
    "state:scheduled",
    "state:retrying",
    "state:failed",
    "state:failed kind:kind_10",
    'state:failed error:"no card 77"',
    "state:succeeded",
    "state:cancelled",
    "state:running",
    "state:ready,failed",
    "kind:kind_3",
    "kind:nothing",
    "tag:vip",
    "created:<1h",
    "finished:<1h kind:kind_2",
    "args.customer:42",
)

Question = Callable[[], object]


def questions(app: App, jobs: int) -> dict[str, Question]:
    asked: dict[str, Question] = {
        f"jobs list {text}".strip(): partial(app.jobs.list_sync, text) for text in FILTERS
    }
    asked["jobs show"] = lambda: app.jobs.show_sync(7)
    asked["jobs explain"] = lambda: app.jobs.explain_sync(jobs)
    asked["queues list"] = app.queues.list_sync
    asked["kinds list"] = app.kinds.list_sync
    asked["workers list"] = app.workers.list_sync
    asked["failures list"] = app.failures.list_sync
    asked["overview"] = app.overview_sync
    for since in ("1h", "24h", "7d", "90d"):
        asked[f"stats {since}"] = partial(app.stats_sync, since)
    asked["stats 24h by minute"] = partial(app.stats_sync, "24h", resolution="1m")
    return asked


def milliseconds(ask: Question) -> float:
    began = time.perf_counter()
    ask()
    return (time.perf_counter() - began) * 1_000


def middle_and_late(times: list[float]) -> tuple[float, float]:
    """The median and the 95th percentile."""
    cuts = quantiles(times, n=20, method="inclusive") if len(times) > 1 else times * 19
    return cuts[9], cuts[18]


def asked(questions: Mapping[str, Question], *, rounds: int, pause: float = 0) -> dict[str, list[float]]:
    """One after the other, round by round, with a pause after each."""
    found: dict[str, list[float]] = {name: [] for name in questions}
    for _ in range(rounds):
        for name, ask in questions.items():
            found[name].append(milliseconds(ask))
            time.sleep(pause)
    return found
