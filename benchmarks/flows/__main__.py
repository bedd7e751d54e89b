"""`python -m benchmarks.flows [names…] [--quick] [--json]`: measure flows; writes a page of docs/."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.bench import Bench, Scale
from benchmarks.figure import Figure, table
from benchmarks.flows.beside import beside
from benchmarks.flows.extent import Extent
from benchmarks.flows.lone import lone
from benchmarks.flows.page import write_page
from benchmarks.flows.sleeping import sleeping

MEASURES: dict[str, Callable[[Bench, Extent], Iterator[Figure]]] = {
    measure.__name__: measure for measure in (beside, lone, sleeping)
}
DOCS = Path(__file__).parents[2] / "docs" / "reference"


def main() -> None:
    options = _options()
    extent = Extent.quick() if options.quick else Extent()
    load = os.getloadavg()[0]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with Bench.start(Scale()) as bench:
            figures = [figure for name in options.names for figure in MEASURES[name](bench, extent)]
            machine = f"{os.cpu_count()} cores, {bench.machine()}, load {load:.1f} before it began"
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    if options.json:
        print(json.dumps({"machine": machine, "figures": [figure.to_json() for figure in figures]}, indent=2))
    else:
        print(f"{machine}\n\n{table(figures)}")
    if not options.quick and options.names == list(MEASURES):
        write_page(DOCS, figures, machine, extent)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.flows", description="Measure flows beside other systems."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}; all of them")
    parser.add_argument("--json", action="store_true", help="figures for programs")
    parser.add_argument("--quick", action="store_true", help="only try whether everything runs")
    options = parser.parse_args()
    if unknown := set(options.names) - set(MEASURES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    options.names = options.names or list(MEASURES)
    return options


if __name__ == "__main__":
    main()
