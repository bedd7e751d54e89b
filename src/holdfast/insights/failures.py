"""`app.failures`: what goes wrong, in groups of the same failure. Every verb comes twice: awaited, and
blocking with `_sync`. With `conn` it is part of your transaction.
"""

from collections.abc import Callable
from datetime import timedelta

from holdfast.domain.duration import duration
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.redaction import Redactions
from holdfast.domain.retention import Retention
from holdfast.insights import failure_groups as groups
from holdfast.insights import operation_steps as operations
from holdfast.insights.bulk_actions import ActionName, BulkAction
from holdfast.insights.failure_records import DeadLetters, FailureDetail, FailurePage
from holdfast.insights.operation_steps import Operation
from holdfast.insights.step_taker import Steps, take, take_blocking
from holdfast.postgres.conversation import Conversation, Holder
from holdfast.postgres.schema import Schema
from holdfast.storage.audit import PYTHON
from holdfast.storage.failures import Order

Since = timedelta | str
Answers = dict[str, int]
Progress = Callable[[Answers], None]


class Failures:
    """Groups are counted by the leader, within seconds. Secrets are masked in what they show."""

    def __init__(
        self,
        schema: Schema,
        holder: Holder,
        retention: Callable[[], Retention],
        declared: Callable[[], Redactions],
    ) -> None:
        self._schema = schema
        self._holder = holder
        self._retention = retention
        self._declared = declared

    async def list(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        since: Since | None = "24h",
        order: Order = "newest",
        after: str | None = None,
        limit: int = 50,
        conn: object = None,
    ) -> FailurePage:
        """Groups that failed within `since` (None: all that are kept), the one that was seen last first, or
        with order="frequent" the one that failed most often. `kind` and `queue`: only what failed there.
        `after`: the `next` of the page before.
        """
        return await self._holder.look(self._list(kind, queue, since, order, after, limit), conn)

    def list_sync(
        self,
        *,
        kind: str | None = None,
        queue: str | None = None,
        since: Since | None = "24h",
        order: Order = "newest",
        after: str | None = None,
        limit: int = 50,
        conn: object = None,
    ) -> FailurePage:
        return self._holder.look_sync(self._list(kind, queue, since, order, after, limit), conn)

    async def show(self, fingerprint: str, *, conn: object = None) -> FailureDetail:
        """One group with its latest dead letters and a traceback. FailureNotFound if there is none."""
        return await self._holder.look(groups.show_group(self._schema, fingerprint, self._declared()), conn)

    def show_sync(self, fingerprint: str, *, conn: object = None) -> FailureDetail:
        return self._holder.look_sync(groups.show_group(self._schema, fingerprint, self._declared()), conn)

    async def count(self, fingerprint: str, *, conn: object = None) -> DeadLetters:
        """How many dead letters `retry` or `purge` would concern, without doing it."""
        return await self._holder.look(groups.count(self._schema, fingerprint), conn)

    def count_sync(self, fingerprint: str, *, conn: object = None) -> DeadLetters:
        return self._holder.look_sync(groups.count(self._schema, fingerprint), conn)

    async def retry(
        self,
        fingerprint: str,
        *,
        limit: int | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        on_progress: Progress | None = None,
        conn: object = None,
    ) -> Answers:
        """Run the dead letters of a group from their start, up to `limit` of them, newest first. It is an
        operation: done in batches, and if this process dies, the leader goes on with it. With `conn`, all of
        it is part of your transaction. Returns how many got which answer; `on_progress` gets that after each
        batch.
        """
        acting = self._acting("retry", fingerprint, limit, by, reason, on_progress)
        return await take(self._holder, acting, conn)

    def retry_sync(
        self,
        fingerprint: str,
        *,
        limit: int | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        on_progress: Progress | None = None,
        conn: object = None,
    ) -> Answers:
        acting = self._acting("retry", fingerprint, limit, by, reason, on_progress)
        return take_blocking(self._holder, acting, conn)

    async def purge(
        self,
        fingerprint: str,
        *,
        limit: int | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        on_progress: Progress | None = None,
        conn: object = None,
    ) -> Answers:
        """Delete the dead letters of a group with all that is known of them, as `retry` runs them again."""
        acting = self._acting("delete", fingerprint, limit, by, reason, on_progress)
        return await take(self._holder, acting, conn)

    def purge_sync(
        self,
        fingerprint: str,
        *,
        limit: int | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        on_progress: Progress | None = None,
        conn: object = None,
    ) -> Answers:
        acting = self._acting("delete", fingerprint, limit, by, reason, on_progress)
        return take_blocking(self._holder, acting, conn)

    def _list(  # noqa: PLR0917  # as they come
        self,
        kind: str | None,
        queue: str | None,
        since: Since | None,
        order: Order,
        after: str | None,
        limit: int,
    ) -> Conversation[FailurePage]:
        length = None if since is None else duration(since, name="since")
        return groups.list_groups(
            self._schema, kind=kind, queue=queue, since=length, order=order, after=after, limit=limit
        )

    def _acting(  # noqa: PLR0917  # as they come
        self,
        action: ActionName,
        fingerprint: str,
        limit: int | None,
        by: str,
        reason: str | None,
        on_progress: Progress | None,
    ) -> Steps[Answers]:
        """As an operation: if this process dies, the leader goes on with it."""
        chosen = BulkAction.of(action, {} if limit is None else {"limit": limit})
        begun: Operation | None = yield self._begin(chosen, fingerprint, by, reason)
        if begun is None:
            return {}

        def tell(operation: Operation) -> None:
            if on_progress is not None:
                on_progress(dict(operation.counts))

        ended = yield from operations.finish(
            self._schema, begun.id, retention=self._retention, on_progress=tell
        )
        tell(ended)
        return dict(ended.counts)

    def _begin(
        self, action: BulkAction, fingerprint: str, by: str, reason: str | None
    ) -> Conversation[Operation | None]:
        """None: the group has no dead letters."""
        dead = yield from groups.dead_letters_of(self._schema, fingerprint)
        if not dead.count:
            return None
        meant = JobFilter(failures=(fingerprint,))
        return (yield from operations.begin(self._schema, action, meant, by=by, reason=reason))
