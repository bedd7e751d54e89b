"""`python -m benchmarks.peers [names…] [--quick] [--json]`: measure Holdfast beside its peers."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.bench import Bench, Scale
from benchmarks.figure import Figure, table
from benchmarks.peers.drain import drain, processes
from benchmarks.peers.extent import Extent
from benchmarks.peers.footprint import idle, memory
from benchmarks.peers.page import write_page
from benchmarks.peers.single import latency, single
from benchmarks.peers.soak import soak

MEASURES: dict[str, Callable[[Bench, Extent], Iterator[Figure]]] = {
    measure.__name__: measure for measure in (drain, single, latency, processes, memory, idle, soak)
}
DEFAULT = [name for name in MEASURES if name != "soak"]
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
    if not options.quick:
        write_page(DOCS, figures, machine, extent)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="Measure the worker beside other job systems."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}; all but soak")
    parser.add_argument("--json", action="store_true", help="figures for programs")
    parser.add_argument(
        "--quick", action="store_true", help="only try whether everything runs; writes no page"
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(MEASURES):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    options.names = options.names or DEFAULT
    return options


if __name__ == "__main__":
    main()
