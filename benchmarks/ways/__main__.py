"""`python -m benchmarks.ways [names…] [--quick] [--list]`: measure each way to run a job, write a page."""

import argparse

from benchmarks.command import run_for_page
from benchmarks.ways.elsewhere import schedule, step
from benchmarks.ways.extent import Extent
from benchmarks.ways.isolate import compute, isolate
from benchmarks.ways.logged import commands, log
from benchmarks.ways.page import write_page
from benchmarks.ways.processes import processes
from benchmarks.ways.slots import slots
from benchmarks.ways.steady import soak
from benchmarks.ways.threads import sleep, threads
from benchmarks.ways.transaction import session, transaction

MEASURES = {
    measure.__name__: measure
    for measure in (
        log,
        commands,
        slots,
        transaction,
        session,
        threads,
        sleep,
        isolate,
        compute,
        processes,
        schedule,
        step,
        soak,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ways", description="Measure every way in which users run a job."
    )
    run_for_page(parser, MEASURES, write_page, extent=Extent(), quick=Extent.quick())


if __name__ == "__main__":
    main()
