"""A worker: services nested by what must outlive what, one identity in the database at a time."""

import asyncio
import logging
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any

from holdfast.domain.transition import ReleaseJob
from holdfast.errors import DatabaseError, HoldfastError
from holdfast.postgres.availability import Availability
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.conversation import hold
from holdfast.postgres.database import Database
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.listener import Listener
from holdfast.postgres.notification import Gap, Notified
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.producer.nearby_workers import NearbyWorkers
from holdfast.producer.wake_ups import LEADER, notify
from holdfast.storage.fit import check_fit
from holdfast.storage.job_lookup import misfit_for
from holdfast.storage.runs import Heartbeat, Settlement, postpone, renew, settle_surely
from holdfast.storage.workers import register, retire
from holdfast.telemetry.events import Emitter, NobodyServes, WorkerStarted, WorkerStopped, WorkerWasLost
from holdfast.worker import django_connections, forked_copy
from holdfast.worker.attempts import Attempts
from holdfast.worker.callers import Caller, Coroutines, Threads
from holdfast.worker.channels import Channel
from holdfast.worker.chores.chore import ChoreNeeds, channels_of
from holdfast.worker.chores.leader import Leader
from holdfast.worker.chores.unserved_reporter import UnservedAtStart
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.completion import Completion
from holdfast.worker.connections import Connections
from holdfast.worker.extras import Extras
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.hook_caller import HookCaller
from holdfast.worker.job_kind import Kinds, Style, heard
from holdfast.worker.job_threads import JobThreads
from holdfast.worker.lease import Lease
from holdfast.worker.lease_keeper import LeaseKeeper
from holdfast.worker.loop_watch import LoopWatch
from holdfast.worker.notice_teller import NoticeTeller
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes import Processes
from holdfast.worker.processes.cores import cores
from holdfast.worker.processes.places import Places
from holdfast.worker.service import cut_short, running
from holdfast.worker.settler import Settler
from holdfast.worker.slots import Slots
from holdfast.worker.stopping import Stopping
from holdfast.worker.stray_threads import StrayThreads
from holdfast.worker.wake_ups import WakeUps

_log = logging.getLogger("holdfast.worker")

_CLOGGED = 5_000
_PING = timedelta(seconds=30)


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
        extras: Extras | None = None,
        left_behind: dict[int, float] | None = None,
        availability: Availability | None = None,
        nearby: NearbyWorkers | None = None,
    ) -> None:
        """`availability` and `nearby` are shared with the App whose worker this is."""
        self._dsn = dsn if isinstance(dsn, Dsn) else Dsn.parse(dsn)
        self._kinds = kinds
        self._options = options
        self._schema = schema
        self._emitter = emitter
        self._version = version
        self._extras = extras or Extras()
        self._left_behind = {} if left_behind is None else left_behind
        self._availability = availability or Availability.of(self._dsn)
        self._nearby = nearby or NearbyWorkers()
        self._id: int | None = None
        self._runs: Mapping[int, ClaimedRun] = {}
        self._lease: Lease | None = None
        self._beginning_anew: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        self._said_unserved: set[NobodyServes] = set()
        self.stopping = Stopping()
        self.started = asyncio.Event()

    @property
    def id(self) -> int | None:
        """Who we are in the database; None before the start and while a lost identity is being replaced."""
        return self._id

    @property
    def grace(self) -> timedelta:
        """How long what runs may go on when this is told to stop."""
        return self._options.grace

    def running_kinds(self) -> Counter[str]:
        """How many jobs of each kind are under way here."""
        return Counter(claimed.row.kind for claimed in self._runs.values())

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
        if self.started.is_set() or self._id is not None:
            await asyncio.Event().wait()

    async def _run(self) -> None:
        async with Connections.opened(
            self._dsn, self._schema, self._availability, self._nearby
        ) as connections:
            hot, calm = connections.hot, connections.calm
            await hold(check_fit(self._schema), calm.run)
            settler = Settler(hot, self._schema, self._options.retention)
            slots = Slots(self._options.queues, lambda: fetcher.slot_freed())  # noqa: PLW0108  # made below
            listener = self._listener(connections)
            wake_ups = WakeUps(self._options.poll.total_seconds(), lambda: listener.health.is_whole)

            def tell_ourselves(names: set[str]) -> None:
                if not wake_ups.are_heard():
                    for name in names - {LEADER}:
                        fetcher.wake(name)
                    if LEADER in names:
                        leader.wake(Channel.DUE)

            places = Places(self._options.children or cores(), lambda: fetcher.place_freed())  # noqa: PLW0108  # as above
            async with self._callers(connections, places) as callers:
                attempts = Attempts(
                    self._kinds,
                    callers,
                    settler,
                    slots=slots,
                    places=places,
                    emitter=self._emitter,
                    complete=self._completing(connections),
                    wake=lambda name: connections.notifier.tell({name}),
                    stray_threads=StrayThreads(self._left_behind),
                    misfit_for=lambda job: calm.run_one(misfit_for(self._schema, job)),
                )
                teller = self._teller = NoticeTeller(
                    calm,
                    self._schema,
                    self._kinds,
                    HookCaller(self._emitter),
                    worker=lambda: self._id,
                    context=attempts.context,
                )
                leader = self._leader(hot, calm, wake_ups, lambda: fetcher.wake())  # noqa: PLW0108  # made below
                fetcher = self._fetcher(hot, slots, places, attempts=attempts, settler=settler, leader=leader)
                keeper = self._keeper(connections.leases, attempts, fetcher, wake_ups)
                self._keeper_now, self._attempts, self._fetcher_now = keeper, attempts, fetcher
                self._runs = attempts.runs
                async with listener:
                    self._subscribe(listener, fetcher, leader, keeper)
                    async with running(keeper):
                        await self._register(calm)
                        async with running(settler):
                            async with running(
                                fetcher,
                                teller,
                                self._unserved_at_start(calm),
                                *([leader] if self._options.is_leading_allowed else []),
                                *self._extras.services(calm, connections.handlers, self._emitter),
                            ):
                                self.started.set()
                                with self._nearby.one_more(tell_ourselves):
                                    await self.stopping.draining.wait()
                                await self._rest(fetcher)
                            released = await self._drain(attempts, settler)
                        await self._retire(calm, released)

    async def _rest(self, fetcher: Fetcher) -> None:
        """Wait for a claim under way, but not for ever: what comes too late is released when we retire."""
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                await self.stopping.unless_hurried(fetcher.rest())

    async def _drain(self, attempts: Attempts, settler: Settler) -> int:
        """Wait for what runs, then tell it to stop, with its attempts refunded. A second signal hurries."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.grace.total_seconds()):
                await self.stopping.unless_hurried(attempts.ended())
        released = attempts.tell_to_stop(Stop.SHUTDOWN)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                await attempts.ended()
                await settler.drained()
        return released

    @property
    def _patience(self) -> float:
        """How many seconds each last word may take. What is left unsaid is rescued when our lease ends."""
        return 3 if self.stopping.hurried.is_set() else 10

    @asynccontextmanager
    async def _callers(self, connections: Connections, places: Places) -> AsyncIterator[dict[Style, Caller]]:
        slots = sum(self._options.queues.values())
        threads = JobThreads(min(slots, 1_000))
        processes = Processes(places, postpone=partial(self._postpone, connections.calm))
        async with processes:
            try:
                callers: dict[Style, Caller] = {
                    "coroutine": Coroutines(),
                    **self._extras.callers(connections, threads, processes),
                }
                if django_connections.is_loaded():
                    callers = {
                        style: django_connections.AroundCoroutines(caller)
                        for style, caller in callers.items()
                    }
                yield {**callers, "thread": Threads(threads), "process": processes}
            finally:
                ending = [asyncio.wrap_future(last) for last in threads.close()]
                if ending:
                    await asyncio.wait(ending, timeout=self._patience)

    def _postpone(self, database: Database, claimed: ClaimedRun, seconds: float | None) -> None:
        """A child has begun a run, or is slow to start: its timeout is counted from then on."""
        self._attempts.watch(claimed)
        if seconds is not None:
            lasting = timedelta(seconds=seconds)
            statement = postpone(
                self._schema, worker=claimed.worker, job=claimed.job, run=claimed.run, lasting=lasting
            )
            telling = asyncio.get_running_loop().create_task(_told(database, statement))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    def _completing(self, connections: Connections) -> Any:
        def complete(claimed: ClaimedRun, connection: object) -> Completion:
            return Completion(
                claimed,
                connection,
                database=connections.handlers,
                blocking=connections.handlers_in_threads,
                schema=self._schema,
                retention=self._options.retention,
            )

        return complete

    def _fetcher(
        self,
        database: Database,
        slots: Slots,
        places: Places,
        *,
        attempts: Attempts,
        settler: Settler,
        leader: Leader,
    ) -> Fetcher:
        return Fetcher(
            database,
            self._schema,
            slots,
            tuple(self._kinds),
            poll=self._options.poll,
            lease=lambda: None if self._id is None else self._lease,
            begin=attempts.begin,
            is_clogged=lambda: settler.backlog >= _CLOGGED,
            on_claimed=leader.claimed,
            isolated=[name for name, kind in self._kinds.items() if kind.style == "process"],
            places=places,
        )

    def _leader(
        self, hot: Database, calm: Database, wake_ups: WakeUps, on_ready: Callable[[], None]
    ) -> Leader:
        needs = ChoreNeeds(
            calm,
            self._schema,
            self._emitter,
            self._options.retention,
            self._options.beats.lease,
            on_end=self._teller.wake,
            said_unserved=self._said_unserved,
        )
        return Leader(
            hot,
            self._extras.chores,
            needs,
            worker=lambda: self._id,
            lease=self._options.leader_lease,
            wake_ups=wake_ups,
            on_ready=on_ready,
        )

    def _unserved_at_start(self, database: Database) -> UnservedAtStart:
        return UnservedAtStart(
            database,
            self._schema,
            self._emitter,
            queues=self._options.queues,
            kinds=self._kinds,
            said=self._said_unserved,
        )

    def _keeper(
        self, blocking: BlockingDatabase, attempts: Attempts, fetcher: Fetcher, wake_ups: WakeUps
    ) -> LeaseKeeper:
        def heard(worker: int, news: Heartbeat) -> None:
            if worker == self._id:
                attempts.cancel(news.to_cancel)
                attempts.lose(news.missing)
                if news.is_any_untold:
                    self._teller.wake()

        return LeaseKeeper(
            blocking,
            self._schema,
            self._options.beats,
            retention=self._options.retention,
            runs=lambda: list(attempts.runs),
            on_news=heard,
            on_lost=self._on_lost,
            claiming_since=lambda: fetcher.claiming_since,
            on_released=fetcher.wake,
            watch=LoopWatch(lambda: list(attempts.runs.values()), self._emitter),
            wake_ups=wake_ups,
        )

    def _listener(self, connections: Connections) -> Listener:
        calm, hints = connections.calm, connections.hints
        if not calm.pooler.keeps_sessions:
            return Listener.off("behind a transaction-mode pooler")
        listener = Listener(
            lambda: calm.dedicated(purpose="listener"),
            ping_interval=_PING,
            notify=lambda channel: hints.run(notify(channel)),
        )
        connections.availability.tell_of_silence(listener)
        return listener

    def _subscribe(self, listener: Listener, fetcher: Fetcher, leader: Leader, keeper: LeaseKeeper) -> None:
        def ready(news: Notified | Gap) -> None:
            fetcher.wake(news.payload if isinstance(news, Notified) else None)

        def cancelled(news: Notified | Gap) -> None:
            if isinstance(news, Gap) or news.payload == str(self._id):
                keeper.poke()

        def changed(news: Notified | Gap) -> None:
            if isinstance(news, Gap) or news.payload == "vacant":
                leader.is_wanted()

        def waking(channel: Channel) -> Callable[[Notified | Gap], None]:
            return lambda _: leader.wake(channel)

        listener.subscribe(Channel.READY.in_schema(self._schema), ready)
        listener.subscribe(Channel.CANCEL.in_schema(self._schema), cancelled)
        listener.subscribe(Channel.LEADER.in_schema(self._schema), changed)
        for channel in channels_of(self._extras.chores):
            listener.subscribe(channel.in_schema(self._schema), waking(channel))

    async def _register(self, database: Database) -> None:
        sent_at = monotonic()
        worker = await database.run_one(
            register(
                self._schema,
                host=socket.gethostname(),
                pid=os.getpid(),
                version=self._version,
                queues=tuple(self._options.queues),
                kinds=tuple(self._kinds),
                hears=heard(self._kinds),
                slots=sum(self._options.queues.values()),
                lease=self._options.beats.lease,
            )
        )
        self._calm = database
        self._lease = self._keeper_now.begin(worker, sent_at)
        self._id = worker
        self._fetcher_now.wake()
        self._emitter.emit(
            WorkerStarted(
                worker, tuple(self._options.queues), len(self._kinds), sum(self._options.queues.values())
            )
        )

    def _on_lost(self, worker: int) -> None:
        """Our lease is gone: abort what ran under it, and begin anew under another identity."""
        if worker != self._id:
            return
        self._id = None
        aborted = self._attempts.tell_to_stop(Stop.LOST, worker=worker)
        self._emitter.emit(WorkerWasLost(worker, aborted))
        if not self.stopping.draining.is_set():
            self._beginning_anew = asyncio.get_running_loop().create_task(self._begin_anew())

    async def _begin_anew(self) -> None:
        failures = FailureLog(_log, "registering this worker anew")
        while self._id is None and not self.stopping.draining.is_set():
            try:
                await self._register(self._calm)
                failures.worked()
                break
            except HoldfastError as error:
                failures.failed(error)
            await asyncio.sleep(0.5)

    async def _retire(self, database: Database, released: int) -> None:
        """Leave nothing behind: a claim whose reply was lost is released too."""
        if self._beginning_anew is not None:
            self._beginning_anew.cancel()
            await asyncio.wait([self._beginning_anew])
        # A beat that finds the row deleted must not take this worker for lost.
        worker, self._id = self._id, None
        if worker is None:
            return
        with suppress(DatabaseError, TimeoutError):
            async with asyncio.timeout(self._patience):
                left = await database.run_one(
                    renew(self._schema, worker=worker, lease=self._options.beats.lease, runs=())
                )
                if left.unknown_runs:
                    releases = settle_surely(
                        self._schema,
                        _releases(worker, left),
                        retention=self._options.retention,
                        is_noticed=True,
                    )
                    await hold(releases, database.run)
                async with database.transaction() as transaction:
                    await hold(retire(self._schema, worker=worker), transaction.run)
        self._emitter.emit(WorkerStopped(worker, released))


async def _told(database: Database, statement: Statement[int]) -> None:
    """What is not told is made up for by the leader's own patience."""
    with suppress(DatabaseError):
        await database.run(statement)


def _releases(worker: int, left: Heartbeat) -> Sequence[Settlement]:
    pairs = zip(left.unknown_jobs, left.unknown_runs, strict=True)
    return [Settlement(worker, job, run, ReleaseJob()) for job, run in pairs]
