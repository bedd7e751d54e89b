"""`python -m benchmarks.peers [names…] [--quick] [--json]`: measure Holdfast beside its peers, and write a
page of docs/.
"""

import argparse

from benchmarks.command import run_for_page
from benchmarks.peers.drain import bulk, drain, processes
from benchmarks.peers.extent import Extent
from benchmarks.peers.footprint import idle, memory
from benchmarks.peers.page import write_page
from benchmarks.peers.single import latency, single
from benchmarks.peers.soak import soak

MEASURES = {
    measure.__name__: measure for measure in (drain, bulk, single, latency, processes, memory, idle, soak)
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.peers", description="Measure the worker beside other job systems."
    )
    run_for_page(parser, MEASURES, write_page, extent=Extent(), quick=Extent.quick(), on_wish=["soak"])


if __name__ == "__main__":
    main()
