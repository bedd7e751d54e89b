"""A kind of job as its author sees it: a function that can be enqueued, typed by its signature."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar

from holdfast.domain.duration import Length, duration
from holdfast.domain.job import NewJob, Policy, check_ids
from holdfast.domain.light_value import LightValue
from holdfast.domain.limit_keys import Use
from holdfast.domain.retry import Retry
from holdfast.domain.uniqueness import OnConflict, Unique, Uniqueness, check_names, stored_key, unique_key
from holdfast.errors import InvalidInput
from holdfast.handle import Handle
from holdfast.postgres.borrowed.kinds import check_known
from holdfast.producer.ambient_connection import OWN_TRANSACTION
from holdfast.worker.job_kind import Kind
from holdfast.worker.kind_limits import Uses

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.codec.signature import Signature
    from holdfast.job_writer import JobWriter

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Call(LightValue, Generic[R_co], frozen=True, gc=True):
    """A job with its arguments, ready to be enqueued together with others."""

    kind: Kind
    job: NewJob
    on_conflict: OnConflict = "existing"

    @property
    def needs_conversation(self) -> bool:
        """Whether one statement may not be enough to write it."""
        return self.on_conflict != "existing" or self.job.debounce is not None

    def __repr__(self) -> str:
        return f"<Call of {self.kind.name}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What one enqueue asks for beside its arguments; None where the kind's own option applies."""

    conn: object = None
    delay: Length | None = None
    at: datetime | None = None
    priority: int | None = None
    queue: str | None = None
    unique: Unique | None = None
    on_conflict: OnConflict | None = None
    debounce: Length | None = None
    max_wait: Length | None = None
    unique_for: Length | None = None
    deadline: Length | datetime | None = None
    tags: Sequence[str] | None = None
    retry: Retry | None = None
    timeout: Length | None = None
    keep: Length | None = None
    limit: Uses | None = None

    def __post_init__(self) -> None:
        if self.conn is not None and self.conn is not OWN_TRANSACTION:
            check_known(self.conn)
        _check_kind("retry", self.retry, Retry, "a Retry(max_attempts=…)")
        _check_kind("at", self.at, datetime, "an aware datetime, or delay= for a length of time")
        _check_tags(self.tags)

    def policy(self, own: Policy) -> Policy:
        """The kind's policy, changed by these options."""
        changes: dict[str, Any] = {}
        if self.priority is not None:
            changes["priority"] = self.priority
        if self.queue is not None:
            changes["queue"] = self.queue
        if self.tags is not None:
            changes["tags"] = tuple(self.tags)
        if self.retry is not None:
            changes |= {"max_attempts": self.retry.max_attempts, "backoff": self.retry.stored}
        if self.timeout is not None:
            changes["timeout"] = duration(self.timeout, name="timeout")
        if self.keep is not None:
            changes["keep"] = duration(self.keep, name="keep")
        return replace(own, **changes) if changes else own

    @property
    def uniqueness(self) -> Uniqueness:
        return Uniqueness(
            unique=self.unique,
            on_conflict=self.on_conflict,
            debounce=_length("debounce", self.debounce),
            max_wait=_length("max_wait", self.max_wait),
            unique_for=_length("unique_for", self.unique_for),
        )

    @property
    def is_due(self) -> bool:
        """Whether a job with these is due at once, and has no deadline."""
        return self.delay is None and self.at is None and self.deadline is None

    def template(self, policy: Policy, unique: Uniqueness) -> NewJob:
        """A job with all of these options, without its arguments and a unique key made of them. Making it
        checks the options, so `using(…)` raises, and not the enqueue after it.
        """
        if unique.debounce is not None and (self.delay is not None or self.at is not None):
            raise InvalidInput(
                "debounce says when the job runs: leave out delay and at, or give unique=False for a job "
                "that is not debounced"
            )
        is_moment = isinstance(self.deadline, datetime)
        return NewJob(
            policy,
            delay=_length("delay", self.delay),
            run_at=self.at,
            deadline_at=self.deadline if isinstance(self.deadline, datetime) else None,
            deadline_in=None
            if self.deadline is None or is_moment
            else duration(self.deadline, name="deadline"),
            unique_key=unique.unique if isinstance(unique.unique, str) else None,
            debounce=unique.debounce,
            max_wait=unique.max_wait,
            unique_for=unique.unique_for,
        )


def _length(what: str, length: Length | None) -> timedelta | None:
    return None if length is None else duration(length, name=what)


def _key(unique: Unique | None, kind: str, args: str, signature: "Signature") -> str | None:
    if isinstance(unique, str):
        return stored_key(unique, kind=kind, secrets=signature.secrets_in(args))
    keyed = signature.keyed(args) if unique else args
    return unique_key(unique, kind=kind, args=keyed, parameters=signature.names)


def _check_kind(what: str, value: object, kind: type, wanted: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise InvalidInput(f"{what} is {value!r}: give {wanted}")


def _check_tags(tags: object) -> None:
    is_list = isinstance(tags, Collection) and not isinstance(tags, str)
    if tags is not None and not is_list:
        raise InvalidInput(f"tags is {tags!r}: give a list of texts")


def not_called(kind: Kind) -> TypeError:
    what, name = ("flow" if kind.style == "flow" else "job"), getattr(kind.function, "__name__", kind.name)
    return TypeError(
        f"{name} is a {what}, which runs in a worker: {name}.enqueue(…), awaited, or {name}.enqueue_sync(…) "
        f"enqueues it. {name}.function(…) calls the function itself, here and now"
    )


@dataclass(frozen=True, slots=True)
class Using(Generic[P, R]):
    """A job with options; made by `job.using(…)`."""

    writer: "JobWriter"
    kind: Kind
    options: Options
    policy: Policy = field(init=False)
    unique: Uniqueness = field(init=False)
    """What makes it unique, by these options and by the kind's."""
    template: NewJob | None = field(init=False)
    """What every job with these options has; None if that is only its policy."""
    uses: Mapping[str, Use] | None = field(init=False)

    def __post_init__(self) -> None:
        retry = self.options.retry
        if retry is not None and not retry.is_stored_whole:
            raise InvalidInput(
                "a job carries only the numbers of a Retry: give on=…, or a function as backoff, to @app.job"
            )
        policy, unique = (
            self.options.policy(self.kind.policy),
            self.options.uniqueness.over(self.kind.uniqueness),
        )
        if self.options.unique is not None:
            # Only now: a function may be decorated before all of its annotations can be read.
            check_names(self.options.unique, kind=self.kind.name, parameters=self.kind.signature.names)
        is_plain = self.options.is_due and not unique.is_keyed
        object.__setattr__(self, "policy", policy)
        object.__setattr__(self, "unique", unique)
        object.__setattr__(self, "uses", self._uses())
        object.__setattr__(self, "template", None if is_plain else self.options.template(policy, unique))

    def _uses(self) -> Mapping[str, Use] | None:
        asked, limits = self.options.limit, self.kind.limits
        if asked is None:
            return None
        if limits is None:
            raise InvalidInput(f"{self.kind.name} has no limits: give it some with @app.job(limit=…)")
        return limits.read_uses(asked)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The job with these arguments, checked, to be given to `app.enqueue_many` or to a schedule."""
        if self.options.conn is not None:
            raise InvalidInput(
                "call(…) writes nothing and needs no connection: leave conn out of using(…), and pass it to "
                "app.enqueue_many(…, conn=…) or app.schedules.put(…, conn=…)"
            )
        return self.new_call(*args, **kwargs)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Write the job: on `conn`'s transaction if one was given, else in one of its own."""
        return await self.writer.enqueue(self.new_call(*args, **kwargs), self.options.conn)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """The same, blocking."""
        return self.writer.enqueue_sync(self.new_call(*args, **kwargs), self.options.conn)

    def new_call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The same for this job's own verbs, which write it on `conn`."""
        signature = self.kind.signature
        text = signature.encode(args, kwargs)
        made, limits = self.template, self.kind.limits
        if made is None:
            if limits is None:
                return Call(self.kind, NewJob(self.policy, text))
            return Call(self.kind, NewJob(self.policy, text, limits=limits.of(text, self.uses)))
        key = _key(self.unique.unique, self.kind.name, text, signature)
        new = NewJob(
            self.policy,
            text,
            made.delay,
            made.run_at,
            made.deadline_at,
            made.deadline_in,
            unique_key=key,
            debounce=made.debounce,
            max_wait=made.max_wait,
            unique_for=made.unique_for,
            limits=() if limits is None else limits.of(text, self.uses),
        )
        return Call(self.kind, new, self.unique.on_conflict or "existing")

    if not TYPE_CHECKING:  # for type checkers it cannot be called at all

        def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
            raise not_called(self.kind)


class Job(Generic[P, R]):
    """A kind of job, made by `@app.job`. The function itself is `job.function`."""

    def __init__(self, app: "App", writer: "JobWriter", kind: Kind) -> None:
        self._plain: Using[P, R] = Using(writer, kind, Options())
        self._writer = writer
        self.app = app
        self.kind = kind
        self.function: Callable[..., Any] = kind.function
        self.__doc__ = kind.function.__doc__
        # A partial, or an object that can be called, has no names of its own.
        self.__name__ = getattr(kind.function, "__name__", kind.name)
        self.__qualname__ = getattr(kind.function, "__qualname__", kind.name)
        self.__module__ = kind.function.__module__

    @property
    def name(self) -> str:
        return self.kind.name

    def __repr__(self) -> str:
        return f"<Job {self.name}>"

    if not TYPE_CHECKING:  # for type checkers it cannot be called at all

        def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
            raise not_called(self.kind)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[R]:
        """The job with these arguments, checked, to be given to `app.enqueue_many` or to a schedule."""
        return self._plain.new_call(*args, **kwargs)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """Write the job in a transaction of its own; `using(conn=…)` for yours."""
        return await self._writer.enqueue(self._plain.new_call(*args, **kwargs), None)

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> Handle[R]:
        """The same, blocking."""
        return self._writer.enqueue_sync(self._plain.new_call(*args, **kwargs), None)

    def handle(self, job: int) -> Handle[R]:
        """A handle on a job of this kind, by its id. Nothing is read before you ask for status or result."""
        check_ids([job])
        return Handle(self.app, self.kind.signature, job, is_new=False)

    def using(
        self,
        *,
        conn: object = None,
        delay: Length | None = None,
        at: datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        unique: Unique | None = None,
        on_conflict: OnConflict | None = None,
        debounce: Length | None = None,
        max_wait: Length | None = None,
        unique_for: Length | None = None,
        deadline: Length | datetime | None = None,
        tags: Sequence[str] | None = None,
        retry: Retry | None = None,
        timeout: Length | None = None,
        keep: Length | None = None,
        limit: Uses | None = None,
    ) -> Using[P, R]:
        """The same job with options.

        conn: your own connection or session; the job exists if its transaction commits. delay, at: run later.
        unique: a key, names of arguments, True, or False for none though the kind has one; on_conflict:
        existing, raise or replace. debounce: run once no other was enqueued for so long, with the last
        arguments, but after max_wait at the latest. unique_for: drop others for so long, also after its end.
        deadline: the job expires unless it has ended by then. timeout: of one attempt. keep: how long it is
        kept after its end, "0s" to delete it at once. limit: how it uses the kind's limits,
        {stripe: Use(key="acme", cost=350)}.
        """
        options = Options(
            conn=conn,
            delay=delay,
            at=at,
            priority=priority,
            queue=queue,
            unique=unique,
            on_conflict=on_conflict,
            debounce=debounce,
            max_wait=max_wait,
            unique_for=unique_for,
            deadline=deadline,
            tags=tags,
            retry=retry,
            timeout=timeout,
            keep=keep,
            limit=limit,
        )
        return Using(self._writer, self.kind, options)
