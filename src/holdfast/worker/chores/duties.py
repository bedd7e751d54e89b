"""All chores of the leader with their pace. Those on exact timers look again when something is due; the
others wait longer and longer while there is nothing to do, so that an idle worker asks for little.
"""

from collections.abc import Callable
from datetime import timedelta

from holdfast.postgres.database import Database
from holdfast.postgres.schema import Schema
from holdfast.storage.chores import TakenAway
from holdfast.storage.runs import Retention
from holdfast.telemetry.events import Emitter
from holdfast.worker.chores.cleaning import Folder, Pruner, RingTurner, Unparker
from holdfast.worker.chores.end_reporter import EndReporter, UntoldReporter
from holdfast.worker.chores.moving import Expirer, Promoter, Rescuer, TimeoutEnforcer
from holdfast.worker.chores.pace import Chore
from holdfast.worker.chores.unserved_reporter import UnservedReporter


def chores_of(
    database: Database,
    schema: Schema,
    emitter: Emitter,
    retention: Retention,
    lease: timedelta,
    *,
    on_end: Callable[[], None] = lambda: None,
    unserved: UnservedReporter | None = None,
) -> list[Chore]:
    """`on_end` is called when jobs have ended, or lost an attempt, whose hooks may be told. `lease` is a
    worker's: whoever wants it short wants to be rescued soon. The renewal of leadership tells, too, when one
    has run out. `unserved` remembers over several leaderships what was said.
    """
    lost = lease.total_seconds()
    promote = Chore(
        "promote",
        Promoter(database, schema).once,
        emitter,
        shortest=5,
        longest=30,
        is_woken=True,
        fills_ready=True,
    )
    reporter = EndReporter(emitter, on_end)

    def rescued(runs: list[TakenAway]) -> None:
        promote.alarm.ring()
        reporter.taken_away(runs)

    rescuer = Rescuer(database, schema, retention, on_rescued=rescued)
    enforcer = TimeoutEnforcer(database, schema, retention, on_rescued=rescued)
    expirer = Expirer(database, schema, retention, on_ended=reporter.expired)
    unserved = unserved or UnservedReporter(database, schema, emitter)
    untold = UntoldReporter(database, schema, emitter)
    return [
        promote,
        Chore("expire", expirer.once, emitter, shortest=5, longest=30),
        Chore("rescue", rescuer.once, emitter, shortest=min(5, lost / 4), longest=min(30, lost)),
        Chore("time out", enforcer.once, emitter, shortest=10, longest=30),
        Chore("ring", RingTurner(database, schema).once, emitter, shortest=1, longest=30),
        Chore(
            "unpark",
            Unparker(database, schema).once,
            emitter,
            shortest=1,
            longest=30,
            is_woken=True,
            fills_ready=True,
        ),
        Chore("fold", Folder(database, schema).once, emitter, shortest=5, longest=30),
        Chore("prune", Pruner(database, schema).once, emitter, shortest=5, longest=60),
        Chore("untold", untold.once, emitter, shortest=60, longest=120),
        Chore("unserved", unserved.once, emitter, shortest=15, longest=60),
    ]
