"""`app.schedules`: stored schedules, and operators' methods for all schedules. Every method exists twice:
awaited, and blocking with `_sync`; with `conn` it is part of the caller's transaction.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from holdfast.domain.duration import Length, duration
from holdfast.domain.redaction import Redactions
from holdfast.domain.retention import HISTORY
from holdfast.domain.timing import Timing, read_timing
from holdfast.postgres.conversation import Conversation, Holder
from holdfast.postgres.schema import Schema
from holdfast.schedules import conversations, schedule_actions
from holdfast.schedules.options import RuleOptions, rules_of, stored_schedule
from holdfast.schedules.records import BackfillPlan, PlanRecord, Schedule
from holdfast.schedules.schedule_actions import Progress
from holdfast.schedules.scopes import Given
from holdfast.storage.audit import PYTHON
from holdfast.storage.schedules import NewSchedule, NewScope
from holdfast.storage.schedules_plans import FiredPlan

if TYPE_CHECKING:
    from holdfast.job import Call

# Named out here: inside the class, `list` is the verb.
ManySchedules = list[Schedule]
FiredPlans = list[FiredPlan]
BackfillPlans = list[BackfillPlan]
PlanRecords = list[PlanRecord]
Skipped = list[tuple[str, datetime]]
Times = list[datetime]


class Schedules:
    """Every change leaves an entry in the audit: `by` is who acts, `reason` why."""

    def __init__(
        self,
        schema: Schema,
        holder: Holder,
        check_call: Callable[["Call[Any]"], object],
        declared: Callable[[], Redactions],
    ) -> None:
        self._schema = schema
        self._holder = holder
        self._check_call = check_call
        self._declared = declared

    async def put(
        self,
        name: str,
        call: "Call[Any]",
        *,
        cron: str | None = None,
        tz: str | None = None,
        every: Length | None = None,
        at: datetime | None = None,
        scope: str | None = None,
        scopes: Sequence[Given] | None = None,
        history: Length = HISTORY,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
        **rules: Unpack[RuleOptions],
    ) -> Schedule:
        """Store a schedule that fires this call, or change the one of that name. A new timing counts from now
        on; a pause stays. Give one of cron, every and at. What changes something leaves an entry in the
        audit: `by` is who does it, `reason` why.
        """
        timing = read_timing(cron=cron, tz=tz, every=every, at=at)
        asked = self._put(
            name, call, timing, rules, history=history, scope=scope, scopes=scopes, by=by, reason=reason
        )
        return await self._holder.hold(asked, conn)

    def put_sync(
        self,
        name: str,
        call: "Call[Any]",
        *,
        cron: str | None = None,
        tz: str | None = None,
        every: Length | None = None,
        at: datetime | None = None,
        scope: str | None = None,
        scopes: Sequence[Given] | None = None,
        history: Length = HISTORY,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
        **rules: Unpack[RuleOptions],
    ) -> Schedule:
        timing = read_timing(cron=cron, tz=tz, every=every, at=at)
        asked = self._put(
            name, call, timing, rules, history=history, scope=scope, scopes=scopes, by=by, reason=reason
        )
        return self._holder.hold_sync(asked, conn)

    def _put(
        self,
        name: str,
        call: "Call[Any]",
        timing: Timing,
        rules: RuleOptions,
        *,
        history: Length,
        scope: str | None,
        scopes: Sequence[Given] | None,
        by: str,
        reason: str | None,
    ) -> Conversation[Schedule]:
        """Checked before anything is asked: a conversation only begins when it is held."""
        self._check_call(call)
        new, chosen = stored_schedule(
            name, call, timing, rules_of(rules), history, scope=scope, scopes=scopes
        )
        return self._written(new, chosen, by, reason)

    def _written(
        self, new: NewSchedule, scopes: Sequence[NewScope], by: str, reason: str | None
    ) -> Conversation[Schedule]:
        found = yield from schedule_actions.put(self._schema, new, scopes, by=by, reason=reason)
        [shown] = yield from conversations.masked(self._schema, [found], self._declared())
        return shown

    def _get(self, name: str) -> Conversation[Schedule]:
        found = yield from conversations.get(self._schema, name)
        [shown] = yield from conversations.masked(self._schema, [found], self._declared())
        return shown

    def _list(self) -> Conversation[ManySchedules]:
        found = yield from conversations.list_all(self._schema)
        return (yield from conversations.masked(self._schema, found, self._declared()))

    async def get(self, name: str, *, conn: object = None) -> Schedule:
        """One schedule, declared or stored. ScheduleNotFound if there is none of that name."""
        return await self._holder.look(self._get(name), conn)

    def get_sync(self, name: str, *, conn: object = None) -> Schedule:
        return self._holder.look_sync(self._get(name), conn)

    async def list(self, *, conn: object = None) -> ManySchedules:
        """All schedules, by name."""
        return await self._holder.look(self._list(), conn)

    def list_sync(self, *, conn: object = None) -> ManySchedules:
        return self._holder.look_sync(self._list(), conn)

    async def pause(
        self,
        name: str,
        *,
        note: str | None = None,
        until: datetime | Length | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> None:
        """Stop firing: for good, until a time, or for a length of time. Plans in a pause are skipped. The
        audit keeps `note` as the reason.
        """
        await self._holder.hold(self._pause(name, note, until, by), conn)

    def pause_sync(
        self,
        name: str,
        *,
        note: str | None = None,
        until: datetime | Length | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> None:
        self._holder.hold_sync(self._pause(name, note, until, by), conn)

    def _pause(
        self, name: str, note: str | None, until: datetime | Length | None, by: str
    ) -> Conversation[None]:
        if until is None or isinstance(until, datetime):
            return schedule_actions.pause(self._schema, name, note=note, until=until, length=None, by=by)
        length = duration(until, name="until")
        return schedule_actions.pause(self._schema, name, note=note, until=None, length=length, by=by)

    async def resume(
        self, name: str, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> bool:
        """Let it fire again. Returns whether it was paused."""
        return await self._holder.hold(
            schedule_actions.resume(self._schema, name, by=by, reason=reason), conn
        )

    def resume_sync(
        self, name: str, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> bool:
        return self._holder.hold_sync(schedule_actions.resume(self._schema, name, by=by, reason=reason), conn)

    async def delete(
        self, name: str, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> None:
        """Delete it; its plans and jobs stay. A declared schedule returns when a worker starts."""
        await self._holder.hold(schedule_actions.delete(self._schema, name, by=by, reason=reason), conn)

    def delete_sync(
        self, name: str, *, reason: str | None = None, by: str = PYTHON, conn: object = None
    ) -> None:
        self._holder.hold_sync(schedule_actions.delete(self._schema, name, by=by, reason=reason), conn)

    async def run_now(
        self,
        name: str,
        *,
        scope: str | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> FiredPlans:
        """Fire now, for one scope or for all, even if it is paused. Its plans do not change."""
        return await self._holder.hold(
            schedule_actions.run_now(self._schema, name, scope=scope, by=by, reason=reason), conn
        )

    def run_now_sync(
        self,
        name: str,
        *,
        scope: str | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> FiredPlans:
        return self._holder.hold_sync(
            schedule_actions.run_now(self._schema, name, scope=scope, by=by, reason=reason), conn
        )

    async def skip_next(
        self,
        name: str,
        *,
        count: int = 1,
        scope: str | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Skipped:
        """Skip the next `count` plans of one scope or of all; returns them. 0 undoes it."""
        return await self._holder.hold(
            schedule_actions.skip_next(self._schema, name, count=count, scope=scope, by=by, reason=reason),
            conn,
        )

    def skip_next_sync(
        self,
        name: str,
        *,
        count: int = 1,
        scope: str | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Skipped:
        return self._holder.hold_sync(
            schedule_actions.skip_next(self._schema, name, count=count, scope=scope, by=by, reason=reason),
            conn,
        )

    async def next_times(
        self, name: str, *, count: int = 10, scope: str | None = None, conn: object = None
    ) -> Times:
        """The next plan times, in UTC."""
        return await self._holder.look(
            conversations.next_times(self._schema, name, count=count, scope=scope), conn
        )

    def next_times_sync(
        self, name: str, *, count: int = 10, scope: str | None = None, conn: object = None
    ) -> Times:
        return self._holder.look_sync(
            conversations.next_times(self._schema, name, count=count, scope=scope), conn
        )

    async def preview(
        self, name: str, first: datetime, last: datetime, *, scope: str | None = None, conn: object = None
    ) -> BackfillPlans:
        """What a backfill of this range, both ends included, would do. Changes nothing."""
        asked = conversations.preview(self._schema, name, first=first, last=last, scope=scope)
        return await self._holder.look(asked, conn)

    def preview_sync(
        self, name: str, first: datetime, last: datetime, *, scope: str | None = None, conn: object = None
    ) -> BackfillPlans:
        asked = conversations.preview(self._schema, name, first=first, last=last, scope=scope)
        return self._holder.look_sync(asked, conn)

    async def backfill(
        self,
        name: str,
        first: datetime,
        last: datetime,
        *,
        scope: str | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        on_progress: Progress | None = None,
        conn: object = None,
    ) -> FiredPlans:
        """Fire the plans of a range that have not fired, all or none. Returns those that it fired.
        `on_progress` gets how many have fired so far, and of how many.
        """
        asked = schedule_actions.backfill(
            self._schema,
            name,
            first=first,
            last=last,
            scope=scope,
            by=by,
            reason=reason,
            on_progress=on_progress,
        )
        return await self._holder.hold(asked, conn)

    def backfill_sync(
        self,
        name: str,
        first: datetime,
        last: datetime,
        *,
        scope: str | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        on_progress: Progress | None = None,
        conn: object = None,
    ) -> FiredPlans:
        asked = schedule_actions.backfill(
            self._schema,
            name,
            first=first,
            last=last,
            scope=scope,
            by=by,
            reason=reason,
            on_progress=on_progress,
        )
        return self._holder.hold_sync(asked, conn)

    async def plans(
        self,
        name: str,
        *,
        scope: str | None = None,
        before: datetime | None = None,
        is_unfired: bool = False,
        limit: int = 100,
        conn: object = None,
    ) -> PlanRecords:
        """What was decided, the latest plan first; `is_unfired`: only what was skipped or missed. Plans of a
        deleted schedule are listed too; ScheduleNotFound if there are none.
        """
        asked = conversations.plans(
            self._schema,
            name,
            self._declared(),
            scope=scope,
            before=before,
            is_unfired=is_unfired,
            limit=limit,
        )
        return await self._holder.look(asked, conn)

    def plans_sync(
        self,
        name: str,
        *,
        scope: str | None = None,
        before: datetime | None = None,
        is_unfired: bool = False,
        limit: int = 100,
        conn: object = None,
    ) -> PlanRecords:
        asked = conversations.plans(
            self._schema,
            name,
            self._declared(),
            scope=scope,
            before=before,
            is_unfired=is_unfired,
            limit=limit,
        )
        return self._holder.look_sync(asked, conn)

    async def latest_plan(
        self, name: str, *, scope: str | None = None, conn: object = None
    ) -> PlanRecord | None:
        """The latest plan that was decided, of one scope or of all; None if there is none yet."""
        return next(iter(await self.plans(name, scope=scope, limit=1, conn=conn)), None)

    def latest_plan_sync(
        self, name: str, *, scope: str | None = None, conn: object = None
    ) -> PlanRecord | None:
        return next(iter(self.plans_sync(name, scope=scope, limit=1, conn=conn)), None)
