"""Jobs on their way into the database, inside of the middleware of their kinds."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Self

from msgspec import structs

from holdfast.domain.headers import headers_of, with_headers
from holdfast.domain.job import NewJob, Policy
from holdfast.worker.job_kind import Kind
from holdfast.worker.middleware import Middleware, OutgoingJob


class OutgoingJobs:
    """`with OutgoingJobs(…) as outgoing:` enters the middleware; then `outgoing.jobs` are to be written, and
    `outgoing.written(…)` tells their ids.
    """

    def __init__(self, jobs: Iterable[tuple[Kind, NewJob]]) -> None:
        self._given = list(jobs)
        self._seen = [
            OutgoingJob(kind.name, new.policy.queue, new.policy.tags, dict(headers_of(new.policy.origin)))
            for kind, new in self._given
        ]
        self._stack = ExitStack()
        self.jobs: list[NewJob] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for middleware, jobs in self._by_middleware():
                stack.enter_context(middleware.enqueuing(jobs))
            self.jobs = self._with_headers()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error of the write is never swallowed: the caller would believe that its job exists.
        self._stack.__exit__(kind, error, trace)

    def written(self, jobs: Iterable[tuple[int, bool]]) -> None:
        for seen, (job, is_new) in zip(self._seen, jobs, strict=True):
            seen.id, seen.is_new = job, is_new

    def _by_middleware(self) -> Iterable[tuple[Middleware, Sequence[OutgoingJob]]]:
        """Each with all of its jobs. Kinds of one app begin with the app's, so these are outermost."""
        found: dict[int, tuple[Middleware, list[OutgoingJob]]] = {}
        for (kind, _), seen in zip(self._given, self._seen, strict=True):
            for middleware in kind.middleware.enqueuing:
                found.setdefault(id(middleware), (middleware, []))[1].append(seen)
        return found.values()

    def _with_headers(self) -> list[NewJob]:
        """Jobs that were alike stay alike, as one policy is made for all with the same headers."""
        made: dict[tuple[int, tuple[tuple[str, str], ...]], Policy] = {}
        jobs = []
        for (_, new), seen in zip(self._given, self._seen, strict=True):
            key = (id(new.policy), tuple(seen.headers.items()))
            if key not in made:
                origin = with_headers(new.policy.origin, seen.headers)
                made[key] = new.policy if origin == new.policy.origin else replace(new.policy, origin=origin)
            jobs.append(new if made[key] is new.policy else structs.replace(new, policy=made[key]))
        return jobs
