"""`make bench-insights`: how long operators wait for an answer, with five million jobs in the database.

A million wait, half a million are dead letters, the rest has succeeded. Every question is asked through an
app, as the command line asks it: several times on an idle server, as often beside a worker that drains at
half of what it can, and once right after a restart of the server.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.insights.beside import Beside, beside_a_worker
from benchmarks.insights.database import copy_of, drop_copy, ensure_filled, make_copy
from benchmarks.insights.questions import asked, middle_and_late, questions
from holdfast import App
from holdfast.postgres.embedded import EmbeddedServer

ASKED_MS = 100
ASKED_COLD_MS = 500
ASKED_GROWTH = 0.05


@dataclass(frozen=True, slots=True)
class Answer:
    """Milliseconds. `beside`: not measured without a worker."""

    question: str
    idle: tuple[float, float]
    beside: tuple[float, float] | None
    restarted: float

    @property
    def is_late(self) -> bool:
        late = max(each[1] for each in (self.idle, self.beside) if each is not None)
        return late >= ASKED_MS or self.restarted >= ASKED_COLD_MS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.insights", description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000_000, help="how many; 5,000,000 by default")
    parser.add_argument("--times", type=int, default=12, help="how often each is asked; 12 by default")
    parser.add_argument("--turns", type=int, default=3, help="beside a worker; 3 by default, 0: no worker")
    parser.add_argument("--seconds", type=float, default=8, help="of a turn without questions; 8 by default")
    parser.add_argument("--data", type=Path, help="where to keep the database, for the next run to find")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with _directory(options.data) as directory:
        answers, beside = measure(
            directory, options.jobs, times=options.times, turns=options.turns, seconds=options.seconds
        )
    show(answers, beside, is_json=options.json)


def measure(
    directory: Path, jobs: int, *, times: int, turns: int, seconds: float
) -> tuple[list[Answer], Beside | None]:
    beside = None
    with EmbeddedServer.start(directory) as server:
        say(f"{jobs:,} jobs in {directory}")
        say("filled" if ensure_filled(server, jobs) else "filled by an earlier run")
        make_copy(server, jobs)
        say("copied")
        with _app(copy_of(server)) as app:
            asked(questions(app, jobs), rounds=1)
            idle = asked(questions(app, jobs), rounds=times)
            say("asked on an idle server")
            if turns:
                beside = beside_a_worker(
                    copy_of(server), questions(app, jobs), times=times, turns=turns, seconds=seconds
                )
                say("asked beside a worker")
    with EmbeddedServer.start(directory) as server:  # its cache is empty, that of the system is not
        with _app(copy_of(server)) as app:
            restarted = asked(questions(app, jobs), rounds=1)
        drop_copy(server)
    return [
        Answer(
            name,
            middle_and_late(found),
            middle_and_late(beside.times[name]) if beside else None,
            restarted[name][0],
        )
        for name, found in idle.items()
    ], beside


def show(answers: list[Answer], beside: Beside | None, *, is_json: bool) -> None:
    if is_json:
        print(json.dumps(_as_json(answers, beside), indent=2))
        return
    print(f"{'':<48}{'idle':>16}{'beside a worker':>18}")
    print(f"{'milliseconds':<48}{'p50':>8}{'p95':>8}{'p50':>9}{'p95':>9}{'restarted':>11}")
    for each in answers:
        times = (*each.idle, *(each.beside or ("", "")), each.restarted)
        cells = (value if isinstance(value, str) else f"{value:.1f}" for value in times)
        widths = (8, 8, 9, 9, 11)
        row = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
        print(f"{each.question:<48}{row}{'  MISS' if each.is_late else ''}")
    print(f"to reach: p95 below {ASKED_MS} ms, below {ASKED_COLD_MS} ms after a restart of the server")
    if beside is not None:
        told = "  MISS" if beside.growth > ASKED_GROWTH else ""
        print(
            f"the worker ran {beside.half_rate:,.0f} jobs/s of {beside.full_rate:,.0f}. CPU of a job: "
            f"{_listed(beside.alone)} µs alone, {_listed(beside.while_asked)} µs while asked, so "
            f"{beside.growth:+.1%}; to reach: at most {ASKED_GROWTH:+.0%}{told}"
        )


def _listed(costs: list[float]) -> str:
    return ", ".join(f"{each:.1f}" for each in costs)


def _as_json(answers: list[Answer], beside: Beside | None) -> dict[str, object]:
    return {
        "questions": [
            {
                "question": each.question,
                "p50": round(each.idle[0], 1),
                "p95": round(each.idle[1], 1),
                "p50_beside": round(each.beside[0], 1) if each.beside else None,
                "p95_beside": round(each.beside[1], 1) if each.beside else None,
                "restarted": round(each.restarted, 1),
            }
            for each in answers
        ],
        "worker": None
        if beside is None
        else {
            "full_rate": round(beside.full_rate),
            "half_rate": round(beside.half_rate),
            "cpu_alone": beside.alone,
            "cpu_while_asked": beside.while_asked,
            "growth": beside.growth,
        },
    }


@contextmanager
def _app(dsn: str) -> Iterator[App]:
    app = App(dsn)
    app.migrate_sync()  # a directory that was kept may be older than the code
    try:
        yield app
    finally:
        app.close_sync()


@contextmanager
def _directory(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        yield Path(directory)


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
