"""`python -m benchmarks [names…] [--seconds N] [--json]`: measure, and print a table of ratios."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.backlog import backlog
from benchmarks.bench import Bench, Scale
from benchmarks.command import parse, run
from benchmarks.cycle import cycle
from benchmarks.due import due
from benchmarks.enqueue import enqueue
from benchmarks.figure import Figure
from benchmarks.recovery import recovery
from benchmarks.schedules import schedules
from benchmarks.steady import Runs
from benchmarks.wal import wal

_runs = Runs()
MEASURES: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "cycle": cycle,
    "steady": _runs.steady,
    "blocked": _runs.blocked,
    "due": due,
    "backlog": backlog,
    "wal": wal,
    "enqueue": enqueue,
    "schedules": schedules,
    "recovery": recovery,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the storage engine.")
    parser.add_argument("--seconds", type=float, help="instead of 60 for the long runs")
    parser.add_argument("--tiny", action="store_true", help="only try whether everything runs")
    options = parse(parser, MEASURES)
    scale = Scale.tiny() if options.tiny else Scale()
    if options.seconds is not None:
        scale = replace(scale, seconds=options.seconds, window=min(scale.window, options.seconds / 2))
    found = run(lambda bench: (figure for name in options.names for figure in MEASURES[name](bench)), scale)
    found.show(is_json=options.json)


if __name__ == "__main__":
    main()
