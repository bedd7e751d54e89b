"""What the commands of the benchmarks share: which measures are to run, and how their figures are shown."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from benchmarks.bench import Bench, Scale
from benchmarks.figure import Figure, table

E = TypeVar("E")

_DOCS = Path(__file__).parents[1] / "docs" / "reference"


def parse(
    parser: argparse.ArgumentParser, measures: Collection[str], *, on_wish: Collection[str] = ()
) -> argparse.Namespace:
    """`names`, those that run; `is_whole`, whether none is missing. `on_wish`: only run if they are named."""
    usual = [name for name in measures if name not in on_wish]
    unnamed = f"all but {', '.join(on_wish)}" if on_wish else "all of them"
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(measures)}; {unnamed}")
    parser.add_argument("--json", action="store_true", help="figures for programs")
    options = parser.parse_args()
    if unknown := set(options.names) - set(measures):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(measures)}")
    options.names = options.names or usual
    options.is_whole = set(options.names) >= set(usual)
    return options


class Found(NamedTuple):
    figures: list[Figure]
    machine: str

    def show(self, *, is_json: bool) -> None:
        if is_json:
            figures = [figure.to_json() for figure in self.figures]
            print(json.dumps({"machine": self.machine, "figures": figures}, indent=2))
        else:
            print(f"{self.machine}\n\n{table(self.figures)}")


def run(measure: Callable[[Bench], Iterable[Figure]], scale: Scale) -> Found:
    """On a server that is gone afterwards, also when this is interrupted."""
    load = os.getloadavg()[0]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with Bench.start(scale) as bench:
            figures = list(measure(bench))
            machine = f"{os.cpu_count()} cores, {bench.machine()}, load {load:.1f} before it began"
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    return Found(figures, machine)


def run_for_page(
    parser: argparse.ArgumentParser,
    measures: Mapping[str, Callable[[Bench, E], Iterable[Figure]]],
    write_page: Callable[[Path, list[Figure], str, E], None],
    *,
    extent: E,
    quick: E,
    on_wish: Collection[str] = (),
) -> None:
    """A whole command. Its page is written only when all that stands on it was measured."""
    parser.add_argument(
        "--quick", action="store_true", help="only try whether everything runs; writes no page"
    )
    options = parse(parser, measures, on_wish=on_wish)
    chosen = quick if options.quick else extent
    found = run(
        lambda bench: (figure for name in options.names for figure in measures[name](bench, chosen)), Scale()
    )
    found.show(is_json=options.json)
    if options.is_whole and not options.quick:
        write_page(_DOCS, found.figures, found.machine, extent)
