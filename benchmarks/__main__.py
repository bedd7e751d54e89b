"""`python -m benchmarks [names…] [--seconds N] [--json]`: measure, and print a table of ratios."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.backlog import backlog
from benchmarks.bench import Bench, Scale
from benchmarks.cycle import cycle
from benchmarks.due import due
from benchmarks.enqueue import enqueue
from benchmarks.figure import Figure, table
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
}


def main() -> None:
    options = _options()
    scale = Scale.tiny() if options.tiny else Scale()
    if options.seconds is not None:
        scale = replace(scale, seconds=options.seconds, window=min(scale.window, options.seconds / 2))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with Bench.start(scale) as bench:
            figures = [figure for name in options.names for figure in MEASURES[name](bench)]
            machine = f"{os.cpu_count()} cores, {bench.machine()}"
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    if options.json:
        print(json.dumps({"machine": machine, "figures": [figure.to_json() for figure in figures]}, indent=2))
    else:
        print(f"{machine}\n\n{table(figures)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the storage engine.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}; all of them")
    parser.add_argument("--seconds", type=float, help="instead of 60 for the long runs")
    parser.add_argument("--json", action="store_true", help="figures for programs")
    parser.add_argument("--tiny", action="store_true", help="only try whether everything runs")
    options = parser.parse_args()
    if unknown := set(options.names) - set(MEASURES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    options.names = options.names or list(MEASURES)
    return options


if __name__ == "__main__":
    main()
