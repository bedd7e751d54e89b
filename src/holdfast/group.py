"""A handle on a group of jobs: how far it has come, its members' results, and the result of the job that
follows them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, TypeVar

from holdfast.domain.duration import compact
from holdfast.domain.outcome import ON_REQUEST
from holdfast.errors import GroupFailed, GroupNotFound, GroupTimeout
from holdfast.handle import Handle
from holdfast.insights.group_records import GroupStatus, Member, status_of
from holdfast.insights.groups import PAGE
from holdfast.postgres.statement import Statement
from holdfast.result_waits import limit_of, refuse_on_a_loop, waits
from holdfast.storage.groups import GroupRow, show_group

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.codec.signature import Signature

R = TypeVar("R")


class Group(Generic[R]):
    """What `app.group` returns, and `app.group_handle` for an id. `R` is what the job of `then` returns."""

    __slots__ = ("_app", "_signature", "id")

    def __init__(self, app: "App", signature: "Signature | None", id: int) -> None:  # noqa: A002  # what it is
        self._app = app
        self._signature = signature
        self.id = id

    def __repr__(self) -> str:
        return f"<Group {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and (other._app, other.id) == (self._app, self.id)

    def __hash__(self) -> int:
        return hash((Group, self.id))

    async def status(self) -> GroupStatus:
        """How far it has come: `status.counts` are its members by how they ended."""
        return self._status(await self._app.run(self._question()))

    def status_sync(self) -> GroupStatus:
        """The same, blocking."""
        return self._status(self._app.run_sync(self._question()))

    async def wait(self, timeout: str | timedelta | None = None) -> GroupStatus:  # noqa: ASYNC109  # a length, not a scope
        """Wait until every member has ended, in whatever way. GroupTimeout if they have not in time."""
        limit = limit_of(timeout)
        for pause in waits(limit):
            if (status := await self.status()).is_closed:
                return status
            await asyncio.sleep(pause)
        raise _late(await self.status(), limit)

    def wait_sync(self, timeout: str | timedelta | None = None) -> GroupStatus:
        """The same, blocking. Not for coroutines: the jobs may need the event loop that this would block."""
        refuse_on_a_loop("wait_sync", "await group.wait()")
        limit = limit_of(timeout)
        for pause in waits(limit):
            if (status := self.status_sync()).is_closed:
                return status
            time.sleep(pause)
        raise _late(self.status_sync(), limit)

    async def result(self, timeout: str | timedelta | None = None) -> R:  # noqa: ASYNC109  # a length, not a scope
        """Wait until the job that follows has ended, and return its result; None if none was asked for.
        GroupFailed if the group was cancelled or `on_failure` ran instead, JobEnded if the job failed, and
        GroupTimeout if it has not ended in time.
        """
        limit = limit_of(timeout)
        for pause in waits(limit):
            status = await self.status()
            if status.is_final or status.has_failed:
                following = self._following(status)
                return await following.result() if following is not None else _nothing()
            await asyncio.sleep(pause)
        raise _late(await self.status(), limit)

    def result_sync(self, timeout: str | timedelta | None = None) -> R:
        """The same, blocking. Not for coroutines: the jobs may need the event loop that this would block."""
        refuse_on_a_loop("result_sync", "await group.result()")
        limit = limit_of(timeout)
        for pause in waits(limit):
            status = self.status_sync()
            if status.is_final or status.has_failed:
                following = self._following(status)
                return following.result_sync() if following is not None else _nothing()
            time.sleep(pause)
        raise _late(self.status_sync(), limit)

    def results(self, *, page: int = PAGE, first: int = 0) -> AsyncIterator[Member]:
        """Every member in the order of the calls, with its state and its result or error: `async for member
        in group.results():`. Read in pages of so many, and `first` is the number of the call to begin at.
        While the group is open, members that have not ended are among them, without a state.
        """
        return self._app.groups.members(self.id, page=page, first=first)

    def results_sync(self, *, page: int = PAGE, first: int = 0) -> Iterator[Member]:
        """The same, blocking: `for member in group.results_sync():`."""
        return self._app.groups.members_sync(self.id, page=page, first=first)

    async def cancel(self, reason: str = ON_REQUEST, *, conn: object = None) -> GroupStatus:
        """Cancel every member that has not ended, and the job that follows: see `app.groups.cancel`."""
        return await self._app.groups.cancel(self.id, reason=reason, conn=conn)

    def cancel_sync(self, reason: str = ON_REQUEST, *, conn: object = None) -> GroupStatus:
        """The same, blocking."""
        return self._app.groups.cancel_sync(self.id, reason=reason, conn=conn)

    def _question(self) -> Statement[GroupRow]:
        return show_group(self._app.schema, self.id)

    def _status(self, rows: list[GroupRow]) -> GroupStatus:
        if not rows:
            raise GroupNotFound(self.id)
        return status_of(rows[0])

    def _following(self, status: GroupStatus) -> Handle[R] | None:
        """The job that the result comes from; None if none was asked for."""
        if status.cancelled_at is not None or status.has_failed:
            raise GroupFailed(
                group=self.id,
                members=status.counts.members,
                unsuccessful=status.counts.unsuccessful,
                is_cancelled=status.cancelled_at is not None,
            )
        if status.then_job is None:
            return None
        return Handle(self._app, self._signature, status.then_job, is_new=False)


def _nothing() -> R:  # type: ignore[type-var]  # a group without `then` is a Group[None]
    return None  # type: ignore[return-value]


def _late(status: GroupStatus, limit: timedelta | None) -> GroupTimeout:
    return GroupTimeout(
        group=status.id,
        waited=compact(limit or timedelta()),
        members=status.counts.members,
        left=0 if status.is_closed else status.counts.left,
    )
