"""Makes the services of a worker and connects them: which one calls which."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.listener import Listener
from holdfast.postgres.schema import Schema
from holdfast.postgres.session_settings import Isolation
from holdfast.producer.wake_ups import GATE, LEADER
from holdfast.storage.channels import Channel
from holdfast.storage.job_lookup import misfit_for
from holdfast.storage.runs import Heartbeat
from holdfast.telemetry.events import Emitter
from holdfast.worker.attempts import Attempts
from holdfast.worker.batch_completion import BatchCompletion
from holdfast.worker.batch_run import BatchRun
from holdfast.worker.caller_wiring import opened_callers
from holdfast.worker.chores.chore import ChoreNeeds
from holdfast.worker.chores.leader import Leader
from holdfast.worker.claimed_run import ClaimedRun, Stop
from holdfast.worker.completion import Completion
from holdfast.worker.connections import Connections
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.hook_caller import HookCaller
from holdfast.worker.identity import Identity, Registrar
from holdfast.worker.job_kind import Kinds
from holdfast.worker.lease import Lease
from holdfast.worker.lease_keeper import LeaseKeeper
from holdfast.worker.lease_postponer import LeasePostponer
from holdfast.worker.log_keeper import LogKeeper
from holdfast.worker.loop_watch import LoopWatch
from holdfast.worker.notice_teller import NoticeTeller
from holdfast.worker.notification_wiring import new_listener, subscribe
from holdfast.worker.options import WorkerOptions
from holdfast.worker.processes.cores import cores
from holdfast.worker.processes.places import Places
from holdfast.worker.service import Service
from holdfast.worker.settler import Settler
from holdfast.worker.slots import Slots, elastic_queues
from holdfast.worker.steering import Steering
from holdfast.worker.stopping import Stopping
from holdfast.worker.stray_threads import StrayThreads
from holdfast.worker.uncertain_commits import UncertainCommits
from holdfast.worker.unserved_at_start import UnservedAtStart
from holdfast.worker.unserved_warnings import UnservedWarnings
from holdfast.worker.vitals import Vitals
from holdfast.worker.wake_ups import WakeUps
from holdfast.worker.worker_extension import WorkerExtension

_CLOGGED = 5_000


@dataclass(frozen=True, slots=True)
class WorkerServices:
    """What runs in a worker. `first_to_go` end while the attempts still run: among them the fetcher, and the
    leader. `on_told` hears what this process has written itself.
    """

    listener: Listener
    keeper: LeaseKeeper
    registrar: Registrar
    settler: Settler
    log_keeper: LogKeeper
    attempts: Attempts
    fetcher: Fetcher
    first_to_go: Sequence[Service]
    prepare: Callable[[], Awaitable[None]]
    subscribe: Callable[[], None]
    on_told: Callable[[set[str]], None]
    vitals: Callable[[], Vitals]


class ServiceWiring:
    """Makes the services of one worker, and connects them."""

    def __init__(
        self,
        kinds: Kinds,
        options: WorkerOptions,
        *,
        schema: Schema,
        emitter: Emitter,
        version: str,
        extension: WorkerExtension,
        left_behind: dict[int, float],
        identity: Identity,
        stopping: Stopping,
    ) -> None:
        self._kinds = kinds
        self._options = options
        self._schema = schema
        self._emitter = emitter
        self._version = version
        self._extension = extension
        self._left_behind = left_behind
        self._identity = identity
        self._stopping = stopping

    @asynccontextmanager
    async def wired(self, connections: Connections) -> AsyncIterator[WorkerServices]:  # noqa: C901  # a call each
        """Made, but not yet running. Threads and child processes for jobs end after the block."""
        hot, calm = connections.hot, connections.calm
        settler = Settler(hot, self._schema, self._options.retention, wake=connections.notifier.tell)
        log_keeper = LogKeeper(calm, self._schema, self._kinds)
        listener = new_listener(connections)
        unserved = UnservedWarnings(calm, self._schema, self._emitter)
        wake_ups = WakeUps(self._options.poll.total_seconds(), lambda: listener.health.is_whole)

        # Services call each other in circles. These are the calls to those that are made further down.
        def slot_freed() -> None:
            fetcher.slot_freed()

        def place_freed() -> None:
            fetcher.place_freed()

        def wake_fetcher() -> None:
            fetcher.wake()

        def watch_from_now(claimed: ClaimedRun) -> None:
            attempts.watch(claimed)

        def beat() -> None:
            keeper.poke()

        def more_slots(number: int) -> None:
            callers.allow_threads(number)

        def lost(worker: int) -> None:
            registrar.lost(worker)

        def tell_ourselves(names: set[str]) -> None:
            if not wake_ups.are_heard():
                for name in names - {LEADER, GATE}:
                    fetcher.wake(name)
                if LEADER in names:
                    leader.wake(Channel.DUE)
                if GATE in names:
                    leader.wake(Channel.GATE)

        queues = self._options.queues
        slots = Slots(
            queues,
            slot_freed,
            elastic_queues(queues, self._kinds),
            on_more=more_slots,
        )
        places = Places(self._options.children or cores(), place_freed)
        async with opened_callers(
            connections,
            LeasePostponer(calm, self._schema, watch_from_now),
            places,
            self._extension,
            slots=sum(queues.values()),
            patience=lambda: self._stopping.patience,
        ) as callers:
            attempts = Attempts(
                self._kinds,
                callers.by_style,
                settler,
                slots=slots,
                places=places,
                emitter=self._emitter,
                complete=self._completing(connections),
                wake=lambda name: connections.notifier.tell({name}),
                stray_threads=StrayThreads(self._left_behind),
                misfit_for=lambda job: calm.run_one(misfit_for(self._schema, job)),
                uncertain=UncertainCommits(calm, self._schema),
                log_keeper=log_keeper,
            )
            teller = NoticeTeller(
                calm,
                self._schema,
                self._kinds,
                HookCaller(self._emitter),
                worker=lambda: self._identity.id,
                context=attempts.context,
            )
            leader = self._leader(hot, calm, wake_ups, unserved, on_ready=wake_fetcher, on_end=teller.wake)
            fetcher = self._fetcher(hot, slots, places, attempts=attempts, settler=settler, leader=leader)
            steering = Steering(
                fetcher,
                slots,
                self._stopping,
                self._emitter,
                running=lambda: len(attempts.runs),
                on_change=beat,
            )
            keeper = self._keeper(
                connections.leases, attempts, fetcher, steering, wake_ups, on_lost=lost, on_untold=teller.wake
            )
            registrar = self._registrar(calm, attempts, fetcher, keeper, steering)
            yield WorkerServices(
                listener,
                keeper,
                registrar,
                settler,
                log_keeper,
                attempts,
                fetcher,
                first_to_go=[
                    fetcher,
                    steering,
                    teller,
                    UnservedAtStart(unserved, queues=self._options.queues, kinds=self._kinds),
                    *([leader] if self._options.is_leading_allowed else []),
                    *self._extension.services(calm, connections.handlers, self._emitter),
                ],
                prepare=lambda: self._extension.prepare(calm),
                subscribe=lambda: subscribe(
                    listener,
                    self._schema,
                    self._identity,
                    self._extension.chores,
                    fetcher=fetcher,
                    leader=leader,
                    keeper=keeper,
                ),
                on_told=tell_ourselves,
                vitals=lambda: Vitals(
                    worker=self._identity.id,
                    activity=steering.activity,
                    slots=slots.usage,
                    is_leader=leader.is_leader,
                    is_listening=listener.health.is_whole,
                    is_database_lost=connections.availability.is_lost,
                    unsettled=settler.backlog,
                    settled_batches=dict(settler.batches),
                    keeper_came_round_at=keeper.came_round_at,
                ),
            )

    def _completing(self, connections: Connections) -> Any:
        needs: dict[str, Any] = {
            "database": connections.handlers,
            "blocking": connections.handlers_in_threads,
            "schema": self._schema,
            "retention": self._options.retention,
        }

        def complete(
            claimed: ClaimedRun, connection: object, isolation: Isolation | None = None
        ) -> Completion:
            if isinstance(claimed, BatchRun):
                return BatchCompletion(claimed, connection, isolation, **needs)
            return Completion(claimed, connection, isolation, **needs)

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
            lease=self._identity.held_lease,
            begin=attempts.begin,
            is_clogged=lambda: settler.backlog >= _CLOGGED,
            on_claimed=leader.claimed,
            isolated=[name for name, kind in self._kinds.items() if kind.style == "process"],
            places=places,
            batched={name: kind for name, kind in self._kinds.items() if kind.batch is not None},
            begin_batch=attempts.begin_batch,
        )

    def _leader(
        self,
        hot: Database,
        calm: Database,
        wake_ups: WakeUps,
        unserved: UnservedWarnings,
        *,
        on_ready: Callable[[], None],
        on_end: Callable[[], None],
    ) -> Leader:
        needs = ChoreNeeds(
            calm,
            self._schema,
            self._emitter,
            self._options.retention,
            self._options.beats.lease,
            on_end=on_end,
            unserved=unserved,
        )
        return Leader(
            hot,
            self._extension.chores,
            needs,
            worker=lambda: self._identity.id,
            lease=self._options.leader_lease,
            wake_ups=wake_ups,
            on_ready=on_ready,
        )

    def _keeper(
        self,
        blocking: BlockingDatabase,
        attempts: Attempts,
        fetcher: Fetcher,
        steering: Steering,
        wake_ups: WakeUps,
        *,
        on_lost: Callable[[int], None],
        on_untold: Callable[[], None],
    ) -> LeaseKeeper:
        def heard(worker: int, news: Heartbeat) -> None:
            if worker == self._identity.id:
                attempts.cancel(news.to_cancel)
                attempts.lose(news.missing)
                steering.heard(worker, news)
                if news.is_any_untold:
                    on_untold()

        return LeaseKeeper(
            blocking,
            self._schema,
            self._options.beats,
            retention=self._options.retention,
            runs=lambda: list(attempts.runs),
            doing=lambda: (steering.activity, steering.queue_slots),
            on_news=heard,
            on_lost=on_lost,
            claiming_since=lambda: fetcher.claiming_since,
            on_released=fetcher.wake,
            watch=LoopWatch(lambda: list(attempts.runs.values()), self._emitter),
            wake_ups=wake_ups,
        )

    def _registrar(
        self,
        database: Database,
        attempts: Attempts,
        fetcher: Fetcher,
        keeper: LeaseKeeper,
        steering: Steering,
    ) -> Registrar:
        def registered(worker: int, sent_at: float) -> Lease:
            fetcher.wake()
            return keeper.begin(worker, sent_at)

        return Registrar(
            self._identity,
            database,
            self._schema,
            self._emitter,
            kinds=self._kinds,
            options=self._options,
            version=self._version,
            stopping=self._stopping,
            doing=lambda: (steering.activity, steering.queue_slots),
            on_registered=registered,
            on_lost=lambda worker: attempts.tell_to_stop(Stop.LOST, worker=worker),
        )
