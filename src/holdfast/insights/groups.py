"""`app.groups`: groups of jobs, how far they have come, and cancelling them. Every method exists twice:
awaited, and blocking with `_sync`; with `conn` it is part of the caller's transaction.
"""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial

from holdfast.domain.group import GROUP_STATES, GroupState
from holdfast.domain.job import check_ids, check_limit, check_text, is_whole
from holdfast.domain.outcome import ON_REQUEST
from holdfast.domain.retention import Retention
from holdfast.errors import GroupNotFound, InvalidInput
from holdfast.insights.group_records import GroupDetail, GroupStatus, Member, detail_of, member_of, status_of
from holdfast.insights.step_taker import Steps, take, take_blocking
from holdfast.postgres.conversation import Conversation, Holder, ask
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.audit import PYTHON, check_signed, put_audit
from holdfast.storage.groups import (
    GroupRow,
    ask_to_cancel,
    awaited,
    cancel_some,
    close_if_over,
    list_groups,
    member_page,
    show_group,
)
from holdfast.storage.operators import cancel
from holdfast.worker.cancel_log import log_cancelled

# Named out here: inside the class, `list` is the verb.
ManyGroups = list[GroupStatus]
ManyMembers = list[Member]
OnCancelled = Callable[[int], None]

PAGE = 1_000


class Groups:
    def __init__(self, schema: Schema, holder: Holder, retention: Callable[[], Retention]) -> None:
        self._schema = schema
        self._holder = holder
        self._retention = retention

    async def list(
        self,
        *,
        state: GroupState | None = None,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        before: int | None = None,
        limit: int = 100,
        conn: object = None,
    ) -> ManyGroups:
        """Groups, newest first; the next page is `before` the id of the last one. Looks through the latest
        10,000.
        """
        return await self._holder.look(self._list(state, name, tags, before, limit), conn)

    def list_sync(
        self,
        *,
        state: GroupState | None = None,
        name: str | None = None,
        tags: Sequence[str] | None = None,
        before: int | None = None,
        limit: int = 100,
        conn: object = None,
    ) -> ManyGroups:
        return self._holder.look_sync(self._list(state, name, tags, before, limit), conn)

    async def show(self, group: int, *, conn: object = None) -> GroupDetail:
        """One group, and some of the members that it waits for. GroupNotFound if there is none."""
        return await self._holder.look(self._show(group), conn)

    def show_sync(self, group: int, *, conn: object = None) -> GroupDetail:
        return self._holder.look_sync(self._show(group), conn)

    async def cancel(
        self,
        group: int,
        *,
        reason: str = ON_REQUEST,
        by: str = PYTHON,
        on_progress: OnCancelled | None = None,
        conn: object = None,
    ) -> GroupStatus:
        """Cancel every member that has not ended; nothing follows. It commits some hundred members at a time,
        and tells `on_progress` how many it has come to; the leader goes on if you stop it. On your own
        `conn` it only asks for it, and the leader cancels the members once you have committed. Guests are
        left alone.
        """
        steps = self._cancelling(group, by, reason, on_progress, is_all=self._holder.chosen(conn) is None)
        return await take(self._holder, steps, conn)

    def cancel_sync(
        self,
        group: int,
        *,
        reason: str = ON_REQUEST,
        by: str = PYTHON,
        on_progress: OnCancelled | None = None,
        conn: object = None,
    ) -> GroupStatus:
        steps = self._cancelling(group, by, reason, on_progress, is_all=self._holder.chosen(conn) is None)
        return take_blocking(self._holder, steps, conn)

    async def members(
        self, group: int, *, page: int = PAGE, first: int = 0, conn: object = None
    ) -> AsyncIterator[Member]:
        """Every member in the order of the calls, from number `first` on, read in pages of so many: `async
        for member in app.groups.members(12):`.
        """
        _check_page(page, first)
        while rows := await self._holder.look(self._page(group, first, page), conn):
            for row in rows:
                yield row
            first += page

    def members_sync(
        self, group: int, *, page: int = PAGE, first: int = 0, conn: object = None
    ) -> Iterator[Member]:
        """The same, blocking."""
        _check_page(page, first)
        while rows := self._holder.look_sync(self._page(group, first, page), conn):
            yield from rows
            first += page

    def _list(
        self,
        state: GroupState | None,
        name: str | None,
        tags: Sequence[str] | None,
        before: int | None,
        limit: int,
    ) -> Conversation[ManyGroups]:
        """Checked before anything is asked: a conversation only begins when it is held."""
        if state is not None and state not in GROUP_STATES:
            raise InvalidInput(f"state is {state!r}: give one of {', '.join(GROUP_STATES)}")
        if isinstance(tags, str):
            raise InvalidInput(f"tags is {tags!r}: give a list of texts")
        states = None if state is None else [state]
        asked = list_groups(self._schema, states=states, name=name, tags=tags, before=before, limit=limit)
        return _each(asked)

    def _show(self, group: int) -> Conversation[GroupDetail]:
        row = yield from self._found(group)
        waits = row.closed_at is None
        rows = (yield from ask(awaited(self._schema, group))) if waits else []
        return detail_of(row, rows)

    def _found(self, group: int) -> Conversation[GroupRow]:
        check_ids([group])
        rows = yield from ask(show_group(self._schema, group))
        if not rows:
            raise GroupNotFound(group)
        return rows[0]

    def _page(self, group: int, first: int, page: int) -> Conversation[ManyMembers]:
        row = yield from self._found(group)
        rows = yield from ask(member_page(self._schema, group, first=first, last=row.members, limit=page))
        return [member_of(each) for each in rows]

    def _cancelling(
        self, group: int, by: str, reason: str, on_progress: OnCancelled | None, *, is_all: bool
    ) -> Steps[GroupStatus]:
        check_ids([group])
        check_text("reason", reason)
        check_signed(by, reason)
        return self._cancelled(group, by, reason, on_progress, is_all=is_all)

    def _cancelled(
        self, group: int, by: str, reason: str, on_progress: OnCancelled | None, *, is_all: bool
    ) -> Steps[GroupStatus]:
        yield self._ask(group, by, reason)
        done = 0
        while is_all and (some := (yield self._some(group))):
            done += some
            if on_progress is not None:
                on_progress(done)
        if is_all:
            # If none of them runs, it is over at once, also without a leader.
            yield close_if_over(self._schema, group)
        row: GroupRow = yield self._found(group)
        return status_of(row)

    def _some(self, group: int) -> Conversation[int]:
        return (yield from cancel_some(self._schema, group, retention=self._retention()))

    def _ask(self, group: int, by: str, reason: str) -> Conversation[None]:
        rows = yield from ask(ask_to_cancel(self._schema, group, reason=reason))
        if not rows:
            raise GroupNotFound(group)
        [asked] = rows
        if asked.then_job is not None and asked.answer == "cancelling":
            yield from cancel(
                self._schema,
                [asked.then_job],
                retention=self._retention(),
                reason=reason,
                on_ended=partial(log_cancelled, reason),
            )
        yield from ask(
            put_audit(
                self._schema,
                action="cancel",
                by=by,
                target=f"group {group}",
                reason=reason,
                counts={asked.answer: 1},
            )
        )


def _each(asked: Statement[GroupRow]) -> Conversation[ManyGroups]:
    return [status_of(row) for row in (yield from ask(asked))]


def _check_page(page: int, first: int) -> None:
    check_limit(page)
    if not is_whole(first) or first < 0:
        raise InvalidInput(f"first is {first!r}: give the number of a member, from 0 on")
