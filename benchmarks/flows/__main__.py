"""`python -m benchmarks.flows [names…] [--quick] [--json]`: measure flows, and write a page of docs/."""

import argparse

from benchmarks.command import run_for_page
from benchmarks.flows.beside import beside
from benchmarks.flows.extent import Extent
from benchmarks.flows.lone import lone
from benchmarks.flows.page import write_page
from benchmarks.flows.sleeping import sleeping

MEASURES = {measure.__name__: measure for measure in (beside, lone, sleeping)}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.flows", description="Measure flows beside other systems."
    )
    run_for_page(parser, MEASURES, write_page, extent=Extent(), quick=Extent.quick())


if __name__ == "__main__":
    main()
