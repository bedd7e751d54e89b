"""Writes an app's groups: makes their calls, chooses the connection, and makes the handle."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec import structs

from holdfast.app_connections import AppConnections
from holdfast.domain.job import MOST_TAGS, NewJob, Policy, check_name
from holdfast.errors import InvalidInput
from holdfast.group import Group
from holdfast.job import Call
from holdfast.job_writer import JobWriter
from holdfast.postgres.borrowed import run_on, run_on_blocking
from holdfast.postgres.conversation import Conversation, hold, hold_blocking
from holdfast.producer.bulk_enqueuer import conflict_choices, only_choice
from holdfast.producer.wake_ups import woken_by
from holdfast.storage.groups import NewGroup, create
from holdfast.storage.jobs import CHUNK, Enqueued
from holdfast.worker.outgoing_jobs import OutgoingJobs

if TYPE_CHECKING:
    from holdfast.app import App

Written = tuple[int, list[Enqueued]]

MOST_MEMBERS = 1_000_000
_SHORTEST = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class AskedGroup:
    """What a caller wants of a group, beside its members."""

    then: Call[Any] | None
    on_failure: Call[Any] | None
    name: str | None
    tags: Sequence[str]


class GroupWriter:
    """All calls are made before the first is written: what makes them may read from elsewhere, and no
    transaction stays open for that.
    """

    def __init__(self, app: "App", connections: AppConnections, jobs: JobWriter) -> None:
        self._app = app
        self._schema = app.schema
        self._connections = connections
        self._jobs = jobs

    async def write(
        self,
        calls: Iterable[Call[Any]],
        asked: AskedGroup,
        conn: object,
    ) -> Group[Any]:
        new = self._new(asked)
        conn = self._jobs.connection_for(conn)
        members: list[Call[Any]] = []
        own = self._jobs.own(calls)
        while chunk := list(islice(own, CHUNK)):
            members += chunk
            _check_size(members)
            await asyncio.sleep(0)  # the event loop goes on between them
        with _Outgoing(self._jobs, members, new, asked) as outgoing:
            jobs = outgoing.jobs
            writing = self._writing(outgoing.group, members, jobs, is_own=conn is None)
            if conn is None:
                producer = await self._connections.opened()
                async with producer.database.transaction() as transaction:
                    group, rows = await hold(writing, transaction.run)
                producer.notifier.tell(woken_by(jobs))
            else:
                group, rows = await hold(writing, lambda statement: run_on(conn, statement))
            outgoing.written(rows)
        return self._handle(asked.then, group)

    def write_sync(
        self,
        calls: Iterable[Call[Any]],
        asked: AskedGroup,
        conn: object,
    ) -> Group[Any]:
        new = self._new(asked)
        conn = self._jobs.connection_for(conn)
        members = list(self._jobs.own(calls))
        _check_size(members)
        with _Outgoing(self._jobs, members, new, asked) as outgoing:
            jobs = outgoing.jobs
            writing = self._writing(outgoing.group, members, jobs, is_own=conn is None)
            if conn is None:
                producer = self._connections.opened_blocking()
                with producer.database.transaction() as transaction:
                    group, rows = hold_blocking(writing, transaction.run)
                producer.notifier.tell(woken_by(jobs))
            else:
                group, rows = hold_blocking(writing, lambda statement: run_on_blocking(conn, statement))
            outgoing.written(rows)
        return self._handle(asked.then, group)

    def _handle(self, then: Call[Any] | None, group: int) -> Group[Any]:
        return Group(self._app, None if then is None else then.kind.signature, group)

    def _new(self, asked: AskedGroup) -> NewGroup:
        if asked.name is not None:
            check_name("name", asked.name)
        if isinstance(asked.tags, str):
            raise InvalidInput(f"tags is {asked.tags!r}: give a list of texts")
        tags = tuple(asked.tags)
        if len(tags) > MOST_TAGS:
            raise InvalidInput(f"a group has at most {MOST_TAGS} tags, not {len(tags):,}")
        for tag in tags:
            check_name("tag", tag)
        then, on_failure = self._follower("then", asked.then), self._follower("on_failure", asked.on_failure)
        return NewGroup(asked.name, tags, then, on_failure)

    def _follower(self, what: str, call: Call[Any] | None) -> NewJob | None:
        if call is None:
            return None
        self._jobs.check_own(call)
        _check_awaited(what, call)
        if call.on_conflict != "existing":
            raise InvalidInput(
                f'{what} has on_conflict="{call.on_conflict}", and is enqueued later, with nobody to '
                "answer: leave it out"
            )
        return call.job

    def _writing(
        self, new: NewGroup, members: Sequence[Call[Any]], jobs: Sequence[NewJob], *, is_own: bool
    ) -> Conversation[Written]:
        for member in members:
            _check_awaited("a member of a group", member)
        on_conflict = only_choice(conflict_choices(members))
        return create(self._schema, new, jobs, on_conflict=on_conflict, notify=not is_own)


class _Outgoing:
    """The members on their way into the database, and the jobs that may follow, inside of the middleware of
    their kinds. No id is told of the latter: they are enqueued when the members have ended.
    """

    def __init__(
        self,
        writer: JobWriter,
        members: Sequence[Call[Any]],
        group: NewGroup,
        asked: AskedGroup,
    ) -> None:
        self._has_middleware = writer.has_middleware
        self._members = members
        self._then, self._on_failure = asked.then, asked.on_failure
        self._stack = ExitStack()
        self._outgoing: OutgoingJobs | None = None
        self.group = group
        self.jobs: list[NewJob] = []

    def __enter__(self) -> Self:
        if not self._has_middleware:
            self.jobs = _kept(call.job for call in self._members)
            return self
        followers = [call for call in (self._then, self._on_failure) if call is not None]
        with ExitStack() as stack:
            self._outgoing = stack.enter_context(
                OutgoingJobs((call.kind, call.job) for call in self._members)
            )
            made = stack.enter_context(OutgoingJobs((call.kind, call.job) for call in followers)).jobs
            self.jobs = _kept(self._outgoing.jobs)
            self.group = replace(
                self.group,
                then=None if self._then is None else made[0],
                on_failure=None if self._on_failure is None else made[-1],
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def written(self, rows: Sequence[Enqueued]) -> None:
        if self._outgoing is not None:
            self._outgoing.written((row.job, row.is_new) for row in rows)


def _kept(jobs: Iterable[NewJob]) -> list[NewJob]:
    """Members that are to be deleted at their end stay until that of their group, which counts them."""
    made: dict[int, Policy] = {}
    return [_kept_one(job, made) for job in jobs]


def _kept_one(job: NewJob, made: dict[int, Policy]) -> NewJob:
    if job.policy.keep is None or job.policy.keep:
        return job
    policy = made.get(id(job.policy))
    if policy is None:
        policy = made[id(job.policy)] = replace(job.policy, keep=_SHORTEST)
    return structs.replace(job, policy=policy)


def _check_awaited(what: str, call: Call[Any]) -> None:
    """The group has to hear of the end of this very job."""
    if call.job.debounce is not None or call.job.unique_for is not None:
        way = "debounce" if call.job.debounce is not None else "unique_for"
        raise InvalidInput(
            f"{what}, {call.kind.name}, has {way}=…, so another job may run in its place: leave it out, or "
            "give unique=False if its kind has it"
        )


def _check_size(members: Sequence[object]) -> None:
    if len(members) > MOST_MEMBERS:
        raise InvalidInput(
            f"a group has at most {MOST_MEMBERS:,} members: split it, or let each member begin a group"
        )
