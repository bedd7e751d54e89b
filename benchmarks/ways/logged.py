"""`holdfast worker` as it is documented, with a line in its log for each job; beside silence, and beside the
commands of other systems.
"""

from collections.abc import Iterator
from functools import partial

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.ways.drained import NOTHING, SILENT, drained, drained_by
from benchmarks.ways.extent import Extent
from benchmarks.ways.turns import best, in_turns, middle, rate_figure

AWA_WORKERS = 50
"""The default of awa's runtime; its Python client wants a number."""

COMMANDS = {
    "pgqueuer": ("pgq", "run", "benchmarks.ways.pgqueuer_app:main"),
    "awa": ("python", "-m", "benchmarks.ways.awa_program", str(AWA_WORKERS)),
    "procrastinate": ("procrastinate", "--app=benchmarks.ways.procrastinate_app.app", "worker"),
}
_SHOWN = {
    "pgqueuer": "`pgq run`",
    "awa": "the quick start of awa-pg",
    "procrastinate": "`procrastinate worker`",
}
_TARGETS = {"pgqueuer": Target("at_least", 2.0, "x")}


def log(bench: Bench, extent: Extent) -> Iterator[Figure]:
    documented, silent = "holdfast worker", "holdfast worker --log-level warning"
    found = in_turns(
        bench,
        extent.rounds,
        {
            documented: partial(drained, bench, NOTHING, extent.logged_jobs),
            silent: partial(drained, bench, NOTHING, extent.logged_jobs, *SILENT),
        },
    )
    yield rate_figure(
        "log",
        "`holdfast worker` as documented, INFO lines to a file, against `--log-level warning`",
        middle(found[documented], found[silent]),
        Target("at_least", 0.6, "%"),
    )


def commands(bench: Bench, extent: Extent) -> Iterator[Figure]:
    ours = "holdfast worker"
    number = {"pgqueuer": extent.few_jobs, "awa": extent.few_jobs, "procrastinate": extent.fewest_jobs}
    found = in_turns(
        bench,
        extent.long_rounds,
        {ours: partial(drained, bench, NOTHING, extent.logged_jobs)}
        | {
            system: partial(drained_by, bench, system, command, number[system])
            for system, command in COMMANDS.items()
        },
    )
    for system in COMMANDS:
        yield rate_figure(
            "commands",
            f"`holdfast worker` as documented, against {_SHOWN[system]}",
            best(found[ours], found[system]),
            _TARGETS.get(system, Target.informative("x")),
        )
