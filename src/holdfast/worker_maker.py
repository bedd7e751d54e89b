"""Makes the workers of an app: from its jobs, its schedules and its options, or those of the call."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.app_connections import AppConnections
from holdfast.domain.duration import Length
from holdfast.domain.retention import Retention
from holdfast.errors import InvalidInput
from holdfast.flows.callers import callers_for
from holdfast.insights.kind_recorder import KindRecorder
from holdfast.leader_chores import LEADER_CHORES
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.schedules.declarer import Declarer
from holdfast.settings import read_slots
from holdfast.storage.limit_rules import declare as declare_limits
from holdfast.telemetry.events import Emitter, Reader
from holdfast.worker.options import WorkerOptions
from holdfast.worker.queue_choice import QueuesAsked, read_queues, remarks
from holdfast.worker.service import Service
from holdfast.worker.worker import Worker
from holdfast.worker.worker_extension import WorkerExtension

if TYPE_CHECKING:
    from holdfast.app import App

_log = logging.getLogger("holdfast.worker")


class WorkerMaker:
    """Knows what the workers of one App share: its connections, its readers, and threads left behind."""

    def __init__(
        self,
        app: "App",
        connections: AppConnections,
        slots: Mapping[str, int],
        readers: Sequence[Reader],
        retention: Retention | None,
    ) -> None:
        self._app = app
        self._schema = app.schema
        self._connections = connections
        self._slots = dict(slots)
        self._readers = readers
        self._retention = retention
        self._left_behind: dict[int, float] = {}

    @property
    def keeping(self) -> Retention:
        """How long jobs that this app cancels are kept: as given to it, or to a worker that it has run."""
        return Retention() if self._retention is None else self._retention

    @property
    def own_queues(self) -> list[str]:
        """The queues that the app's jobs are declared with."""
        return list(dict.fromkeys(kind.policy.queue for kind in self._app.declared_kinds.values()))

    async def make(
        self,
        queues: QueuesAsked | None,
        slots: Mapping[str, int] | None,
        grace: Length | None,
        options: WorkerOptions | None,
        readers: Sequence[Reader] = (),
    ) -> Worker:
        """A worker that does not run yet. `slots` are only mentioned in a warning if `options` are given.
        `readers` hear its events, beside those of the app.
        """
        import asyncio

        from holdfast import __version__
        from holdfast.telemetry.log import log_event

        self._app.check()
        if not self._app.declared_kinds:
            raise InvalidInput(
                "this app has no jobs: decorate a function with @app.job, and import its module"
            )
        chosen = self.options(queues, slots, grace) if options is None else options
        if self._retention is None:
            self._retention = chosen.retention
        for remark in remarks(chosen.queues, self.own_queues, self._slots, slots or {}):
            _log.warning("%s", remark)
        return Worker(
            await asyncio.to_thread(self._connections.dsn),
            self._app.declared_kinds,
            chosen,
            schema=self._schema,
            emitter=Emitter(log_event, *self._readers, *readers),
            version=__version__,
            extension=self.extension(chosen.retention),
            left_behind=self._left_behind,
            availability=self._connections.availability,
            nearby=self._connections.nearby,
        )

    def options(
        self, queues: QueuesAsked | None, slots: Mapping[str, int] | None, grace: Length | None
    ) -> WorkerOptions:
        return WorkerOptions(
            queues=read_queues(
                self.own_queues if queues is None else queues, self._slots | read_slots(slots)
            ),
            grace="30s" if grace is None else grace,
            retention=self.keeping,
        )

    def extension(self, retention: Retention) -> WorkerExtension:
        """What schedules and flows need of a worker: every leader plans and wakes all of them, each process
        declares its own schedules.
        """
        from holdfast import __version__

        declared = tuple(self._app.declared.values())

        recorders: dict[Database, KindRecorder] = {}

        def recorder_on(database: Database) -> KindRecorder:
            if database not in recorders:
                recorders[database] = KindRecorder(
                    database, self._schema, self._app.declared_kinds, version=__version__
                )
            return recorders[database]

        def services(database: Database, handlers: Database, emitter: Emitter) -> list[Service]:
            recorder = recorder_on(database)
            declarer = Declarer(database, handlers, self._schema, emitter, declared)
            return [recorder, declarer] if declared else [recorder]

        async def declare(database: Database) -> None:
            """Before it is known that somebody serves these kinds: from then on their jobs are admitted, and
            all of them are as long as a limit is unknown.
            """
            limits = {name: limit.spec for name, limit in self._app.declared_limits.items()}
            if limits:
                async with database.transaction() as transaction:
                    await hold(declare_limits(self._schema, limits), transaction.run)
            if any(kind.limits for kind in self._app.declared_kinds.values()):
                await recorder_on(database).once()

        return WorkerExtension(
            chores=LEADER_CHORES,
            declare=declare,
            prepare=lambda database: recorder_on(database).prepare(),
            services=services,
            callers=lambda *from_worker: callers_for(self._schema, retention, *from_worker),
        )


def check_given_once(queues: object, slots: object, grace: object, options: object) -> None:
    if options is not None and not isinstance(options, WorkerOptions):
        raise InvalidInput(f"options is {options!r}: give WorkerOptions(…), or leave it out")
    if options is not None and any(given is not None for given in (queues, slots, grace)):
        raise InvalidInput(
            "queues, slots and grace are part of WorkerOptions, as queues={…} and grace=…: give them there, "
            "or give no options"
        )
