"""A worker: services nested so that each outlives those that need it, until the worker has to stop."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta

from holdfast.postgres.availability import Availability
from holdfast.postgres.conversation import hold
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.schema import Schema
from holdfast.producer.nearby_workers import NearbyWorkers
from holdfast.storage.fit import check_fit
from holdfast.telemetry.events import Emitter, RunsLeftUnsettled
from holdfast.worker import forked_copy
from holdfast.worker.attempts import Attempts
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.connections import Connections
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.identity import Identity
from holdfast.worker.job_kind import Kinds
from holdfast.worker.options import WorkerOptions
from holdfast.worker.service import cut_short, running
from holdfast.worker.service_wiring import ServiceWiring, WorkerServices
from holdfast.worker.stopping import Stopping
from holdfast.worker.vitals import Vitals
from holdfast.worker.worker_extension import WorkerExtension

_log = logging.getLogger("holdfast.worker")


class Worker:
    """Runs jobs of the given kinds until told to stop."""

    def __init__(
        self,
        dsn: str | Dsn,
        kinds: Kinds,
        options: WorkerOptions,
        *,
        schema: Schema,
        emitter: Emitter,
        version: str,
        extension: WorkerExtension | None = None,
        left_behind: dict[int, float] | None = None,
        availability: Availability | None = None,
        nearby: NearbyWorkers | None = None,
    ) -> None:
        """`availability` and `nearby` are shared with the App whose worker this is."""
        self._dsn = dsn if isinstance(dsn, Dsn) else Dsn.parse(dsn)
        self._options = options
        self._schema = schema
        self._availability = availability or Availability.of(self._dsn)
        self._nearby = nearby or NearbyWorkers()
        self._emitter = emitter
        self._identity = Identity()
        self._extension = extension or WorkerExtension()
        self._attempts: Attempts | None = None
        self._vitals: Callable[[], Vitals] | None = None
        self.stopping = Stopping()
        self.started = asyncio.Event()
        # The jobs of runs that it held and could not settle, once it has stopped: the leader rescues them.
        self.unsettled: tuple[int, ...] = ()
        self._wiring = ServiceWiring(
            kinds,
            options,
            schema=schema,
            emitter=emitter,
            version=version,
            extension=self._extension,
            left_behind={} if left_behind is None else left_behind,
            identity=self._identity,
            stopping=self.stopping,
        )

    @property
    def id(self) -> int | None:
        """As in the database; None before the start and while a lost identity is being replaced."""
        return self._identity.id

    @property
    def grace(self) -> timedelta:
        """How long running jobs may continue after the worker is asked to stop."""
        asked = self.stopping.grace
        return self._options.grace if asked is None else asked

    def running_kinds(self) -> Counter[str]:
        """How many jobs of each kind are under way here."""
        runs = {} if self._attempts is None else self._attempts.runs
        return Counter(claimed.row.kind for claimed in runs.values())

    def vitals(self) -> Vitals | None:
        """What it is doing, for probes and metrics; None before it has connected. From any thread."""
        return None if self._vitals is None else self._vitals()

    async def run(self) -> None:
        """Until `stopping` is asked to drain. Nothing claimed is forgotten on the way out."""
        forked_copy.watch(asyncio.get_running_loop())
        try:
            async with cut_short(self._asked_before_the_start) as is_cut:
                await self._run()
            if is_cut():
                _log.warning("stopped before it had started, while it connected to %s", self._dsn.where)
        finally:
            forked_copy.unwatch()

    async def _asked_before_the_start(self) -> None:
        """Returns only if it was told to stop while there is nothing yet to drain."""
        await self.stopping.draining.wait()
        if self.started.is_set() or self.id is not None:
            await asyncio.Event().wait()

    async def _run(self) -> None:
        async with Connections.opened(
            self._dsn, self._schema, self._availability, self._nearby
        ) as connections:
            await hold(check_fit(self._schema), connections.calm.run)
            await self._extension.declare(connections.calm)
            async with self._wiring.wired(connections) as services, services.listener:
                await self._serve(services)

    async def _serve(self, services: WorkerServices) -> None:
        """Indentation shows what outlives what: the lease is kept while anything runs, the settler outlives
        the attempts that it settles.
        """
        self._attempts, self._vitals = services.attempts, services.vitals
        services.subscribe()
        async with running(services.keeper):
            await services.registrar.register()
            await services.prepare()
            async with running(services.settler, services.log_keeper):
                async with running(*services.first_to_go):
                    self.started.set()
                    with self._nearby.one_more(services.on_told):
                        await self.stopping.draining.wait()
                    held = dict(services.attempts.runs)
                    services.keeper.poke()  # operators see that it stops
                    await self._rest(services.fetcher)
                held.update(services.attempts.runs)
                released = await self._drain(services)
            is_retired = await services.registrar.retire(released, patience=self.stopping.patience)
            if not is_retired:
                self._leave(held, services.attempts.runs)
            elif services.settler.backlog:
                _log.warning(
                    "%d runs have ended and could not be settled: they are given back and run again",
                    services.settler.backlog,
                )

    async def _rest(self, fetcher: Fetcher) -> None:
        """Wait for a claim in flight, but not forever: jobs that arrive too late are released at the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self.stopping.unless_hurried(fetcher.rest())

    async def _drain(self, services: WorkerServices) -> int:
        """Wait for what runs, then tell it to stop, with its attempts refunded. A second signal hurries."""
        attempts, settler = services.attempts, services.settler
        with suppress(TimeoutError):
            async with asyncio.timeout(self.grace.total_seconds()):
                await self.stopping.unless_hurried(attempts.ended())
        released = attempts.tell_to_stop(Stop.SHUTDOWN)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.stopping.patience.total_seconds()):
                await attempts.ended()
                await settler.drained()
                await services.log_keeper.drained()
        return released

    def _leave(self, held: Mapping[int, ClaimedRun], unsettled: Mapping[int, ClaimedRun]) -> None:
        """A worker that retires gives back what it still has. This one could not, since the database does not
        answer; its lease may even have ended meanwhile, and its runs with it.
        """
        left = [
            run
            for run in held.values()
            if run.run in unsettled or (run.stop is Stop.LOST and not run.committed)
        ]
        self.unsettled = tuple(sorted(run.job for run in left))
        if left:
            self._emitter.emit(RunsLeftUnsettled(left[0].worker, self.unsettled, self._options.beats.lease))
