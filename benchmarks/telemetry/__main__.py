"""`python -m benchmarks.telemetry [names…] [--quick] [--json]`: what metrics and tracing cost a job."""

import argparse
import socket
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from benchmarks.bench import Bench, Scale
from benchmarks.command import parse, run
from benchmarks.figure import Figure, Target
from benchmarks.telemetry.sdk import sdk_alone
from benchmarks.ways.drained import NOTHING, UNFINISHED, drain, fill
from benchmarks.ways.program import Program
from benchmarks.ways.turns import Pair, Ran, in_turns, middle
from holdfast.domain.headers import with_headers

_APPS = "benchmarks.telemetry.apps"
_PAYMENT = "pay"
_SAMPLED = 10


@dataclass(frozen=True, slots=True)
class Extent:
    """The defaults are those of the targets. Few per cent are seen only in many rounds of many jobs."""

    metrics_rounds: int = 9
    metrics_jobs: int = 100_000
    rounds: int = 5
    jobs: int = 30_000
    payments: int = 5_000

    @classmethod
    def quick(cls) -> "Extent":
        """Large enough to run every line, too small to mean anything."""
        return cls(metrics_rounds=1, metrics_jobs=2_000, rounds=1, jobs=1_000, payments=200)


def metrics(bench: Bench, extent: Extent) -> Iterator[Figure]:
    off, on = "no metrics", "--metrics-port, scraped once"
    found = in_turns(
        bench,
        extent.metrics_rounds,
        {
            off: partial(_drained, bench, "receipts", NOTHING, extent.metrics_jobs),
            on: partial(_scraped, bench, extent.metrics_jobs),
        },
    )
    yield _figure(
        "metrics",
        "a no-op with `--metrics-port`, scraped once a round, against without",
        _middle(found[on], found[off]),
        Target("at_most", 1.03, "x"),
    )


def tracing(bench: Bench, extent: Extent) -> Iterator[Figure]:
    """Every job has been enqueued by a traced program: its run's span has a parent, and a link."""
    off, on, few, none = "not traced", "traced", f"1 of {_SAMPLED} traced", "none sampled"
    found = in_turns(
        bench,
        extent.rounds,
        {
            off: partial(_drained, bench, "receipts", NOTHING, extent.jobs),
            on: partial(_drained, bench, "traced_receipts", NOTHING, extent.jobs, origin=_all_sampled),
            few: partial(_drained, bench, "traced_receipts", NOTHING, extent.jobs, origin=_few_sampled),
            none: partial(_drained, bench, "traced_receipts", NOTHING, extent.jobs, origin=_none_sampled),
        },
    )
    paid = in_turns(
        bench,
        extent.rounds,
        {
            off: partial(_drained, bench, "payments", _PAYMENT, extent.payments),
            on: partial(_drained, bench, "traced_payments", _PAYMENT, extent.payments, origin=_all_sampled),
        },
    )
    yield _figure(
        "tracing",
        "a row in `ctx.transaction()` with a span of each run, against without",
        _middle(paid[on], paid[off]),
        Target("at_most", 1.25, "x"),
    )
    yield _figure(
        "tracing",
        "a no-op with a span of each run, against without",
        _middle(found[on], found[off]),
        Target("at_most", 1.25, "x"),
    )
    yield _figure(
        "tracing",
        f"a no-op with a span of every {_SAMPLED}th run, against without",
        _middle(found[few], found[off]),
        Target.informative("x"),
    )
    yield _figure(
        "tracing",
        "a no-op with `Tracing` whose run is not sampled, against without",
        _middle(found[none], found[off]),
        Target("at_most", 1.25, "x"),
    )
    span = _middle(found[on], found[off])
    alone = sdk_alone(extent.jobs)
    yield Figure(
        "tracing",
        "of what a span costs a no-op's worker: made by the SDK alone",
        alone / (span.ours.effort.workers - span.theirs.effort.workers),
        Target.informative("%"),
        f"{alone:.1f} µs",
    )


MEASURES = {measure.__name__: measure for measure in (metrics, tracing)}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.telemetry", description="Measure what metrics and tracing cost."
    )
    parser.add_argument("--quick", action="store_true", help="only try whether everything runs")
    options = parse(parser, MEASURES)
    extent = Extent.quick() if options.quick else Extent()
    found = run(
        lambda bench: (figure for name in options.names for figure in MEASURES[name](bench, extent)), Scale()
    )
    found.show(is_json=options.json)


def _drained(
    bench: Bench,
    app: str,
    kind: str,
    jobs: int,
    *options: str,
    origin: Callable[[int], str | None] | None = None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Ran:
    """By `holdfast worker` as it is documented, with a line in its log for each job."""
    with bench.database() as dsn:
        fill(dsn, kind, jobs, origin)
        with Program.start(["holdfast", "worker", "-A", f"{_APPS}:{app}", *options], dsn) as program:
            return drain(program, dsn, jobs, UNFINISHED, meanwhile)


def _scraped(bench: Bench, jobs: int) -> Ran:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def scrape() -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            assert b"holdfast_runs_total{" in answer.read()

    return _drained(bench, "receipts", NOTHING, jobs, "--metrics-port", str(port), meanwhile=scrape)


def _none_sampled(number: int) -> str | None:
    return _sent_in(number, is_sampled=False)


def _all_sampled(number: int) -> str | None:
    return _sent_in(number, is_sampled=True)


def _few_sampled(number: int) -> str | None:
    return _sent_in(number, is_sampled=number % _SAMPLED == 0)


def _sent_in(number: int, *, is_sampled: bool) -> str | None:
    """The origin of a job that was enqueued in a span, as a traced program writes it."""
    trace, span = blake2b(number.to_bytes(8), digest_size=16), blake2b(number.to_bytes(8), digest_size=8)
    flags = "01" if is_sampled else "00"
    return with_headers(None, {"traceparent": f"00-{trace.hexdigest()}-{span.hexdigest()}-{flags}"})


def _middle(ours: list[Ran], theirs: list[Ran]) -> Pair:
    return middle(ours, theirs, by=lambda pair: pair.cost)


def _figure(name: str, measure: str, pair: Pair, target: Target) -> Figure:
    ours, theirs = pair.ours.effort, pair.theirs.effort
    behind = " against ".join(f"{each.workers:.1f} + {each.server:.1f}" for each in (ours, theirs))
    return Figure(name, measure, pair.cost, target, f"{behind} µs")


if __name__ == "__main__":
    main()
