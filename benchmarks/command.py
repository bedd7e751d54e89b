"""What the commands of the benchmarks share: which measures are to run, and how their figures are shown."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from benchmarks.bench import Bench, Scale
from benchmarks.figure import Figure
from benchmarks.found import Found

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
    parser.add_argument("--list", action="store_true", help="only say which there are")
    options = parser.parse_args()
    if options.list:
        print("\n".join(measures))
        sys.exit()
    if unknown := set(options.names) - set(measures):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(measures)}")
    options.names = options.names or usual
    options.is_whole = set(options.names) >= set(usual)
    return options


def run(measure: Callable[[Bench], Iterable[Figure]], scale: Scale) -> Found:
    """On a server that is gone afterwards, also when this is interrupted."""
    load = os.getloadavg()[0]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with Bench.start(scale) as bench:
            figures = list(measure(bench))
            server = f"{os.cpu_count()} cores, {bench.machine()}"
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    return Found(figures, server, [load])


def run_for_page(
    parser: argparse.ArgumentParser,
    measures: Mapping[str, Callable[[Bench, E], Iterable[Figure]]],
    write_page: Callable[[Path, list[Figure], str, E], None],
    *,
    extent: E,
    quick: E,
    on_wish: Collection[str] = (),
) -> None:
    """A whole command. Its page is written only when all that stands on it was measured, in this run or, with
    `--into`, in several.
    """
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="keep the figures there, beside those of other runs"
    )
    parser.add_argument(
        "--quick", action="store_true", help="only try whether everything runs; writes no page"
    )
    options = parse(parser, measures, on_wish=on_wish)
    chosen = quick if options.quick else extent
    found = run(
        lambda bench: (figure for name in options.names for figure in measures[name](bench, chosen)), Scale()
    )
    found.show(is_json=options.json)
    is_whole = options.is_whole
    if options.into is not None:
        found = found.put_into(options.into)
        is_whole = {figure.name for figure in found.figures} >= set(measures) - set(on_wish)
    if is_whole and not options.quick:
        write_page(_DOCS, found.in_order(measures), found.machine, extent)
