"""`app.failures`: what goes wrong, in groups of the same failure. Every verb comes twice: awaited, and
blocking with `_sync`. With `conn` it is part of your transaction.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial

from holdfast.domain.duration import duration
from holdfast.domain.job import is_whole
from holdfast.domain.redaction import Redaction
from holdfast.errors import InvalidInput
from holdfast.insights import failure_groups as groups
from holdfast.insights import job_actions
from holdfast.insights.failure_records import DeadLetters, FailureDetail, FailurePage
from holdfast.insights.job_actions import PYTHON
from holdfast.postgres.conversation import Conversation, Holder
from holdfast.postgres.schema import Schema
from holdfast.storage.failures import Order

_BATCH = 500

Since = timedelta | str
Answers = dict[str, int]
Act = Callable[[Sequence[int], str], Conversation[dict[int, str]]]


class Failures:
    """Groups are counted by the leader, within seconds. Secrets are masked in what they show."""

    def __init__(
        self, schema: Schema, holder: Holder, declared: Callable[[], Mapping[str, Redaction]]
    ) -> None:
        self._schema = schema
        self._holder = holder
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
        return await self._holder.hold(self._list(kind, queue, since, order, after, limit), conn)

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
        return self._holder.hold_sync(self._list(kind, queue, since, order, after, limit), conn)

    async def show(self, fingerprint: str, *, conn: object = None) -> FailureDetail:
        """One group with its latest dead letters and a traceback. FailureNotFound if there is none."""
        return await self._holder.hold(groups.show_group(self._schema, fingerprint, self._declared()), conn)

    def show_sync(self, fingerprint: str, *, conn: object = None) -> FailureDetail:
        return self._holder.hold_sync(groups.show_group(self._schema, fingerprint, self._declared()), conn)

    async def count(self, fingerprint: str, *, conn: object = None) -> DeadLetters:
        """How many dead letters `retry` or `purge` would concern, without doing it."""
        return await self._holder.hold(groups.count(self._schema, fingerprint), conn)

    def count_sync(self, fingerprint: str, *, conn: object = None) -> DeadLetters:
        return self._holder.hold_sync(groups.count(self._schema, fingerprint), conn)

    async def retry(
        self,
        fingerprint: str,
        *,
        limit: int | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Answers:
        """Run the dead letters of a group from their start, up to `limit` of them, oldest first; in batches,
        each with a transaction of its own unless you pass `conn`. Returns how many got which answer.
        """
        acting = partial(job_actions.retry, self._schema, reason=reason, by=by)
        return await self._act(fingerprint, lambda jobs, of: acting(jobs, of=of), limit, conn)

    def retry_sync(
        self,
        fingerprint: str,
        *,
        limit: int | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Answers:
        acting = partial(job_actions.retry, self._schema, reason=reason, by=by)
        return self._act_sync(fingerprint, lambda jobs, of: acting(jobs, of=of), limit, conn)

    async def purge(
        self,
        fingerprint: str,
        *,
        limit: int | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Answers:
        """Delete the dead letters of a group with all that is known of them, as `retry` runs them again."""
        acting = partial(job_actions.delete, self._schema, reason=reason, by=by)
        return await self._act(fingerprint, lambda jobs, of: acting(jobs, of=of), limit, conn)

    def purge_sync(
        self,
        fingerprint: str,
        *,
        limit: int | None = None,
        reason: str | None = None,
        by: str = PYTHON,
        conn: object = None,
    ) -> Answers:
        acting = partial(job_actions.delete, self._schema, reason=reason, by=by)
        return self._act_sync(fingerprint, lambda jobs, of: acting(jobs, of=of), limit, conn)

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

    async def _act(self, fingerprint: str, act: Act, limit: int | None, conn: object) -> Answers:
        batches = _Batches(limit)
        for after, size in batches:
            batch = groups.act_on_batch(self._schema, fingerprint, after=after, limit=size, act=act)
            batches.did(await self._holder.hold(batch, conn))
        return dict(batches.counts)

    def _act_sync(self, fingerprint: str, act: Act, limit: int | None, conn: object) -> Answers:
        batches = _Batches(limit)
        for after, size in batches:
            batch = groups.act_on_batch(self._schema, fingerprint, after=after, limit=size, act=act)
            batches.did(self._holder.hold_sync(batch, conn))
        return dict(batches.counts)


class _Batches:
    """Which dead letters come next: those behind the last one, so that a job that fails again while the
    others are retried is not retried a second time.
    """

    def __init__(self, limit: int | None) -> None:
        if limit is not None and not (is_whole(limit) and limit > 0):
            raise InvalidInput(f"limit is {limit!r}: give a whole number from 1 on, or None for all")
        self.counts: Counter[str] = Counter()
        self._left = limit
        self._after = 0
        self._is_over = False

    def __iter__(self) -> Iterator[tuple[int, int]]:
        while not self._is_over and self._left != 0:
            yield self._after, _BATCH if self._left is None else min(_BATCH, self._left)

    def did(self, answers: dict[int, str]) -> None:
        self.counts.update(answers.values())
        self._is_over = not answers
        self._after = max(answers, default=self._after)
        if self._left is not None:
            self._left -= len(answers)
