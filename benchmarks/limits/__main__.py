"""`python -m benchmarks.limits [names…] [--quick] [--list]`: measure what limits cost, write a page."""

import argparse

from benchmarks.command import run_for_page
from benchmarks.limits.extent import Extent
from benchmarks.limits.measures import batches, drain, enqueue, fleet, hot, many_keys, snapshot
from benchmarks.limits.page import write_page

MEASURES = {
    measure.__name__: measure for measure in (drain, enqueue, hot, snapshot, fleet, batches, many_keys)
}
ON_WISH = ("many_keys",)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.limits", description="Measure what limits cost."
    )
    run_for_page(parser, MEASURES, write_page, extent=Extent(), quick=Extent.quick(), on_wish=ON_WISH)


if __name__ == "__main__":
    main()
