"""The error tree: one root, and a class for each reaction that a caller may have. The tree says who reacts;
the classes below have its order. docs/reference/errors.md says when each is raised and what to do.

HoldfastError
│  the author of the call mends it; nothing was written:
├── InvalidInput                 the call is wrong; nothing was written
│   ├── InvalidConnectionString  no DSN can be read from this text
│   │   └── UnsupportedScheme    a URL of another database
│   ├── InvalidSchemaName        not a name for a Postgres schema of ours
│   ├── InvalidMigration         a folder of migrations that cannot be run
│   ├── WrongConnection          a connection this call cannot run on
│   ├── InvalidArguments         they do not fit the job's signature
│   ├── InvalidFilter            the text of a filter cannot be read
│   ├── UnstorableType           a parameter or result of a type that JSON cannot carry
│   ├── StepNameTaken            a flow used the name of a step twice in one run
│   └── DatabaseClosed           used before it was opened, or after it was closed
│  the caller tries again, or asks the operator of the database:
├── DatabaseError                Postgres refused, or did not answer
│   ├── ConnectionFailed         no connection could be made
│   ├── ConnectionLost           cut while a statement was under way: its outcome is unknown
│   ├── PoolTimeout              every pooled connection stayed busy for too long
│   ├── Conflict                 lost against another transaction; rolled back, may be tried again
│   ├── ServerUnable             the server cannot do it now: cancelled, read-only, full; may be tried again
│   │   └── QuestionTimeout      an operator's question took too long: ask for less
│   └── StatementFailed          Postgres refused the statement; trying again will not help
│       └── DataRefused          for a value in it, which no server would take
│  the caller or an operator looks at the job, flow, queue or schedule that it names:
├── DuplicateJob                 an active job holds the unique key
├── JobNotFound                  there is no such job (any more)
├── JobEnded                     the job whose result is wanted failed, was cancelled or expired
│   └── ChildFailed              the same, of a job that a flow has waited for
├── ResultTimeout                the job whose result is wanted has not ended in time
├── GroupNotFound                there is no such group (any more)
├── GroupFailed                  a group whose result is wanted was cancelled, or on_failure took its place
├── GroupTimeout                 a group that is waited for has not ended in time
├── Undecodable                  what is stored does not fit this version of the code
├── StepNotFound                 a flow has done no step of that name
├── NotAFlow                     the job is a plain one: operate it as a job
├── FlowNotFailed                only a flow that has failed can be resumed or retried
├── KindNotFound                 no worker has stored a kind of that name
├── OperationNotFound            there is no such operation (any more)
├── FailureNotFound              there is no such group of failures (any more)
├── LimitNotFound                no code has declared a limit of that name
├── QueueNotFound                no job, setting, schedule or worker knows a queue of that name
├── ScheduleNotFound             there is no schedule of that name, or no such scope of it
├── ScheduleConflict             the name belongs to a schedule of the other sort: declared, or stored
├── WorkerNotFound               there is no such worker (any more)
├── WorkerRefused                it cannot be asked for that: it is lost, stopping, or of an older release
│  the handler or flow that runs meets it, or its attempt ends with it:
├── StepFailed                   a step of a flow failed for good
├── EventTimeout                 the event that a flow waited for did not come in time
├── FlowDiverged                 a flow takes another path than the one that was recorded
├── LeaseLost                    this run was taken away: nothing of it can be written any more
├── TransactionEnded             a block that commits by itself was left in another transaction than its own
├── ProcessDied                  the child process of an attempt ended before its handler did
│  the operator migrates, upgrades or grants a right:
├── SchemaError                  code and database do not fit
│   ├── ServerTooOld             this version of Postgres is older than the oldest that is served
│   ├── SchemaOutdated           the database is behind: run "holdfast migrate"
│   ├── SchemaNotFound           what a statement names is not there: another database, or not migrated;
│   │                            a StatementFailed too
│   ├── CodeOutdated             the database needs a newer Holdfast
│   ├── MigrationFailed          a migration was rolled back
│   ├── MigrationBlocked         its locks were not free in time; may be tried again
│   └── MissingPrivilege         this role may not do that to the schema; a StatementFailed too
│  the owner of the machine makes room for the private server:
└── EmbeddedError                the private Postgres cannot run
    ├── BinariesNotFound         no Postgres for this platform
    ├── DataDirectoryError       the data directory cannot be used
    │   ├── DataVersionMismatch  written by another major version
    │   └── DiskFull             no space left for the data
    ├── OutOfReach               root must run Postgres as a user that cannot get there
    ├── SocketPathTooLong        the operating system's limit is 107 bytes
    └── ServerStartFailed        Postgres ended before it answered

HoldfastWarning                  a UserWarning: it works, but probably not as you meant it
├── OutsideTransaction           written without `conn` inside a block that commits: rolled back alone
└── BlocksEventLoop              a method whose name ends in _sync was called on a running event loop
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from signal import Signals
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.domain.states import EndedAs, JobState


class HoldfastError(Exception):
    """The root of everything that Holdfast raises on purpose."""


class InvalidInput(HoldfastError, ValueError):
    """The call is wrong, and nothing was written."""


class InvalidConnectionString(InvalidInput):
    """No DSN can be read from this text. The text is not repeated: it may hold a password."""


class UnsupportedScheme(InvalidConnectionString):
    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        base, _, driver = scheme.partition("+")
        is_ours = driver and base.lower().startswith("postgres")
        wrong = f"names a driver of SQLAlchemy: leave +{driver} out" if is_ours else "is not Postgres"
        super().__init__(
            f'"{scheme}://" {wrong}: use postgresql://user@host/database, '
            'or key=value pairs such as "host=localhost dbname=shop"'
        )


class InvalidSchemaName(InvalidInput):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name!r} cannot name Holdfast's schema: use 1 to 40 of a-z, 0-9 and _, "
            'beginning with a letter, and not with "pg_"'
        )


class InvalidMigration(InvalidInput):
    def __init__(self, file: str, problem: str) -> None:
        self.file, self.problem = file, problem
        super().__init__(f"{file}: {problem}")


class WrongConnection(InvalidInput, TypeError):
    """A connection that this call cannot run on: of an unknown kind; an async one where a blocking one is
    needed, or the reverse; that of another task; none at all, where one is required; and for a block that
    commits, one in autocommit or in a transaction that others end.
    """


class InvalidArguments(InvalidInput, TypeError):
    def __init__(self, function: str, parameter: str | None, problem: str) -> None:
        self.function, self.parameter, self.problem = function, parameter, problem
        place = f"{function}({parameter}=…)" if parameter else f"{function}()"
        super().__init__(f"{place}: {problem}")


class InvalidFilter(InvalidInput):
    """The text of a filter cannot be read: `start` and `end` say where, `advice` what could stand there."""

    def __init__(self, text: str, start: int, end: int, reason: str, advice: str) -> None:
        self.text = text
        self.start = start
        self.end = end
        self.reason = reason
        self.advice = advice
        mark = " " * start + "^" * max(end - start, 1)
        shown = "".join(" " if each.isspace() else each for each in text)
        super().__init__(f"{reason}\n  {shown}\n  {mark}\n{advice}")


class UnstorableType(InvalidInput):
    def __init__(self, function: str, parameter: str, problem: str) -> None:
        self.function, self.parameter, self.problem = function, parameter, problem
        place = f"what {function}() returns" if parameter == "return" else f"{function}({parameter})"
        super().__init__(f"{place}: {problem}")


class StepNameTaken(InvalidInput):
    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f'two steps of this flow are called "{name}": a step is known by its name, so give each its own, '
            "or in a loop a key=…"
        )


class DatabaseClosed(InvalidInput):
    """Used before it was opened, or after it was closed."""


class DatabaseError(HoldfastError):
    """Postgres refused, or did not answer. `sqlstate` is its code, if it gave one."""

    def __init__(self, message: str, *, sqlstate: str | None = None) -> None:
        self.sqlstate = sqlstate
        super().__init__(message)


class ConnectionFailed(DatabaseError):
    """No connection could be made, so nothing was done."""


class ConnectionLost(DatabaseError):
    """Cut while a statement was under way: whether it took effect is unknown."""


class PoolTimeout(DatabaseError):
    def __init__(self, seconds: float, *, max_size: int) -> None:
        self.seconds = seconds
        self.max_size = max_size
        super().__init__(
            f"no connection became free within {seconds:g} s (the pool has {max_size}): "
            "raise pool_max_conns, or look for transactions that stay open"
        )


class Conflict(DatabaseError):
    """Another transaction won, and this one was rolled back: repeat it."""


class ServerUnable(DatabaseError):
    """The server cannot do it now: it cancelled the statement, is read-only, or is short of disk, memory or
    connections. Nothing was written: try again later.
    """


class QuestionTimeout(ServerUnable, TimeoutError):
    """A list or another question of operators took longer than `question_timeout`."""

    def __init__(self, within: timedelta, *, sqlstate: str | None) -> None:
        self.within = within
        super().__init__(
            f"no answer within {within.total_seconds():g} s (question_timeout): ask for less, such as one "
            "kind, one queue, a shorter time or a smaller limit, or raise question_timeout",
            sqlstate=sqlstate,
        )


class StatementFailed(DatabaseError):
    """Postgres refused the statement: trying again does not help before something is changed, such as a right
    or the schema.
    """


class DataRefused(StatementFailed):
    """A value in the statement is refused: it cannot be encoded, breaks a constraint, or is too large. Only
    another value will help.
    """


class DuplicateJob(HoldfastError):
    def __init__(self, *, key: str, queue: str, job: int) -> None:
        self.key, self.queue, self.job = key, queue, job
        super().__init__(
            f'job {job} holds the unique key "{key}" in queue "{queue}": wait until it has ended (and its '
            "unique_for, if it has one, is over), "
            'or enqueue with on_conflict="existing" or "replace"'
        )


class JobNotFound(HoldfastError, LookupError):
    def __init__(self, job: int) -> None:
        self.job = job
        super().__init__(
            f"job {job} does not exist: it was never enqueued, its transaction has not committed yet, or it "
            "was pruned after its retention"
        )


class JobEnded(HoldfastError):
    """The job ended without a result. `error` is what the ledger keeps of it."""

    def __init__(self, *, job: int, state: "EndedAs", error: Mapping[str, object]) -> None:
        self.job, self.state, self.error = job, state, dict(error)
        reason = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
        super().__init__(f"job {job} {state}" + (f" ({reason})" if reason else ""))


class ChildFailed(JobEnded):
    """A flow's own job ended without a result. `step` is what the flow calls it."""

    def __init__(self, step: str, *, job: int, state: "EndedAs", error: Mapping[str, object]) -> None:
        self.step = step
        super().__init__(job=job, state=state, error=error)


class ResultTimeout(HoldfastError, TimeoutError):
    """`state` is the job's when time was up. Of one that waits for a worker, `is_queue_served` says whether a
    live worker serves its queue, `is_kind_known` whether one knows its kind; None of any other.
    """

    def __init__(
        self,
        *,
        job: int,
        waited: str,
        state: str,
        situation: str,
        is_queue_served: bool | None = None,
        is_kind_known: bool | None = None,
    ) -> None:
        self.job, self.waited, self.state = job, waited, state
        self.is_queue_served, self.is_kind_known = is_queue_served, is_kind_known
        super().__init__(f"job {job} has not ended within {waited}: {situation}")


class GroupNotFound(HoldfastError, LookupError):
    def __init__(self, group: int) -> None:
        self.group = group
        super().__init__(
            f"group {group} does not exist: it was never written, its transaction has not committed yet, or "
            "it was deleted some days after its end"
        )


class GroupFailed(HoldfastError):
    """The group ended without the job that its result comes from. `members` is how many it has,
    `unsuccessful` how many of them did not succeed.
    """

    def __init__(self, *, group: int, members: int, unsuccessful: int, is_cancelled: bool) -> None:
        self.group, self.members, self.unsuccessful = group, members, unsuccessful
        self.is_cancelled = is_cancelled
        how = (
            "was cancelled"
            if is_cancelled
            else f"has no result: {unsuccessful:,} of {members:,} members did not succeed, so on_failure ran "
            "in place of then"
        )
        super().__init__(f"group {group} {how}")


class GroupTimeout(HoldfastError, TimeoutError):
    """`left` of the `members` had not ended when time was up."""

    def __init__(self, *, group: int, waited: str, members: int, left: int) -> None:
        self.group, self.waited, self.members, self.left = group, waited, members, left
        missing = (
            f"{left:,} of {members:,} members have not ended, see `holdfast groups show {group}`"
            if left
            else "its members have ended, the job that follows has not"
        )
        super().__init__(f"group {group} has not ended within {waited}: {missing}")


class Undecodable(HoldfastError):
    """What is stored does not fit this version of the code. `text` is what is stored, in full; among
    arguments, secrets are masked.
    """

    def __init__(self, message: str, *, text: str) -> None:
        self.text = text
        super().__init__(message)


class StepNotFound(HoldfastError, LookupError):
    def __init__(self, flow: int, step: str, *, done: Sequence[str]) -> None:
        self.flow, self.step, self.done = flow, step, list(done)
        super().__init__(
            f'flow {flow} has not done a step "{step}", it has done {_path(self.done)}: '
            "to retry the step that failed last, resume the flow"
        )


class NotAFlow(HoldfastError, LookupError):
    def __init__(self, job: int, kind: str, *, instead: str) -> None:
        self.job, self.kind = job, kind
        super().__init__(
            f'job {job} of kind "{kind}" is not a flow: it has no steps, and no flow of that kind is known; '
            f"for a job use {instead}"
        )


class FlowNotFailed(HoldfastError):
    def __init__(self, flow: int, state: "JobState") -> None:
        self.flow, self.state = flow, state
        super().__init__(f"flow {flow} is {state}: only a failed flow can be resumed or retried")


class KindNotFound(HoldfastError, LookupError):
    def __init__(self, kind: str, *, near: str, advice: str) -> None:
        self.kind = kind
        super().__init__(
            f'no worker has declared a kind "{kind}" to this database'
            + (f"{near} Else {advice}" if near else f": {advice}")
        )


class OperationNotFound(HoldfastError, LookupError):
    def __init__(self, operation: int) -> None:
        self.operation = operation
        super().__init__(f"there is no operation {operation} (any more)")


class FailureNotFound(HoldfastError, LookupError):
    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        super().__init__(
            f'no failure has the fingerprint "{fingerprint}": it was not counted yet, which takes seconds, '
            "or it was not seen for so long that its group was deleted"
        )


class LimitNotFound(HoldfastError, LookupError):
    def __init__(self, name: str, *, near: str = "") -> None:
        self.name, self.near = name, near
        super().__init__(
            f'no code has declared a limit "{name}"{f"{near} See" if near else ": see"} those that there are '
            'with app.limits.list() or "holdfast limits list"'
        )


class QueueNotFound(HoldfastError, LookupError):
    def __init__(self, queue: str, *, near: str, advice: str) -> None:
        self.queue, self.near = queue, near
        super().__init__(
            f'no job, setting, schedule or worker knows the queue "{queue}", so nothing was changed'
            + (f"{near} Else {advice}" if near else f": {advice}")
        )


class ScheduleNotFound(HoldfastError, LookupError):
    def __init__(self, name: str, *, scope: str | None = None, near: str = "") -> None:
        self.name, self.scope, self.near = name, scope, near
        what = f'schedule "{name}"' if scope is None else f'scope "{scope}" of schedule "{name}"'
        super().__init__(
            f"there is no {what}{f'{near} See' if near else ': see'} what there is with "
            'app.schedules.list() or "holdfast schedules list"'
        )


class ScheduleConflict(HoldfastError):
    def __init__(self, name: str, *, is_declared: bool) -> None:
        self.name, self.is_declared = name, is_declared
        super().__init__(
            f'schedule "{name}" is declared in code: change it there, or choose another name'
            if is_declared
            else f'a stored schedule is called "{name}": give the declaration another name=…, or delete it'
        )


class WorkerNotFound(HoldfastError, LookupError):
    def __init__(self, worker: int) -> None:
        self.worker = worker
        super().__init__(
            f"there is no worker {worker}: it has stopped, or was lost long ago; see app.workers.list() for "
            "those that there are"
        )


class WorkerRefused(HoldfastError):
    """Nothing was asked of the worker. `reason` says why."""

    def __init__(self, worker: int, what: str, reason: str) -> None:
        self.worker, self.reason = worker, reason
        super().__init__(f"worker {worker} cannot {what}: {reason}")


class StepFailed(HoldfastError):
    """A step failed, and its retries are used up. `error` is what is kept of it: code, type, message."""

    is_kept = False
    """Whether it is the step's end, whatever the flow does; else the flow's next attempt runs it again."""

    def __init__(self, step: str, error: Mapping[str, object]) -> None:
        self.step, self.error = step, dict(error)
        reason = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
        super().__init__(f'step "{step}" failed ({reason or "for an unknown reason"})')


class EventTimeout(HoldfastError, TimeoutError):
    def __init__(self, event: str) -> None:
        self.event = event
        super().__init__(f'event "{event}" did not arrive in time')


class FlowDiverged(HoldfastError):
    """Parked for an operator: the code was changed, or it decides by something that was not recorded."""

    def __init__(
        self, problem: str, *, recorded: Sequence[str], taken: Sequence[str], advice: str | None = None
    ) -> None:
        self.problem, self.recorded, self.taken = problem, list(recorded), list(taken)
        advice = advice or (
            "Let a flow decide only by its arguments and the results of its steps; for running flows, keep "
            "the old path behind flow.version(…)"
        )
        super().__init__(
            f"this run takes a different path than the recorded one: {problem}. "
            f"Recorded: {_path(self.recorded)}. Taken: {_path(self.taken)}. {advice}"
        )


class LeaseLost(HoldfastError):
    def __init__(self, *, job: int, run: int, doing: str) -> None:
        self.job, self.run, self.doing = job, run, doing
        super().__init__(
            f"run {run} lost its lease on job {job} and could not {doing}: another run may have the job, "
            "so stop without further effects"
        )


class TransactionEnded(HoldfastError):
    """A job that meets it fails for good: what was committed would be written again."""

    def __init__(self) -> None:
        super().__init__(
            "code inside this block committed or rolled back its transaction, so the block's "
            "writes and its end cannot be one commit. What was committed stays, and the job is not retried: "
            "leave commit and rollback to the block, and use a savepoint around statements that may fail"
        )


class ProcessDied(HoldfastError):
    """A failed attempt; the worker continues. A `returncode` below zero is the number of a signal."""

    holdfast_code = "process_died"

    def __init__(self, returncode: int) -> None:
        self.exit_code = returncode if returncode >= 0 else None
        self.signal = -returncode if returncode < 0 else None
        if self.signal is None:
            how = f"exited with {returncode}"
        else:
            known = [number.name for number in Signals if number == self.signal]
            how = f"was killed by signal {self.signal} ({', '.join(known) or 'unknown'})"
        if self.signal == Signals.SIGKILL:
            how += ", such as by the kernel when memory runs out"
        super().__init__(f"its process {how} before the handler had ended")


class SchemaError(HoldfastError):
    """Code and database do not fit each other."""


def _migrate(schema: str) -> str:
    """The command that helps, for this schema."""
    return "holdfast migrate" if schema == "holdfast" else f"holdfast migrate --schema {schema}"


class ServerTooOld(SchemaError):
    def __init__(self, *, found: str, oldest: int) -> None:
        self.found, self.oldest = found, oldest
        super().__init__(f"this server is Postgres {found}, Holdfast needs {oldest} or later: upgrade it")


class SchemaOutdated(SchemaError):
    def __init__(self, *, found: int, needed: int, schema: str) -> None:
        self.found, self.needed, self.schema = found, needed, schema
        state = f"is at {found}" if found else "has not been created"
        super().__init__(
            f'database schema "{schema}" {state}, this release needs {needed}: run "{_migrate(schema)}"'
        )


class SchemaNotFound(SchemaError, StatementFailed):
    def __init__(self, *, schema: str, reason: str, sqlstate: str) -> None:
        self.schema, self.reason = schema, reason
        super().__init__(
            f'this database lacks what Holdfast needs in schema "{schema}" ({reason}), so nothing was '
            f'written: run "{_migrate(schema)}" on it, '
            "or pass a connection to the database that was migrated",
            sqlstate=sqlstate,
        )


class CodeOutdated(SchemaError):
    def __init__(self, *, found: int, needed: int, schema: str) -> None:
        self.found, self.needed, self.schema = found, needed, schema
        super().__init__(
            f'database schema "{schema}" needs code that knows schema {needed} or later, '
            f"this release knows {found}: upgrade Holdfast here"
        )


class MigrationFailed(SchemaError):
    def __init__(self, *, version: int, name: str, reason: str) -> None:
        self.version, self.name, self.reason = version, name, reason
        super().__init__(
            f"migration {version} ({name}) failed and was rolled back, the database is unchanged: {reason}"
        )


class MigrationBlocked(SchemaError):
    def __init__(self, *, schema: str, reason: str) -> None:
        self.schema, self.reason = schema, reason
        super().__init__(
            f'database schema "{schema}" is unchanged: {reason}. '
            "Look for long transactions in pg_stat_activity, then try again"
        )


class MissingPrivilege(SchemaError, StatementFailed):
    def __init__(self, *, schema: str, reason: str, advice: str, sqlstate: str | None = None) -> None:
        self.schema, self.reason, self.advice = schema, reason, advice
        super().__init__(
            f'this role lacks a privilege on database schema "{schema}" ({reason}): {advice}',
            sqlstate=sqlstate,
        )


class EmbeddedError(HoldfastError):
    """The private Postgres cannot run."""


class BinariesNotFound(EmbeddedError):
    def __init__(self, looked_in: Mapping[str, str]) -> None:
        self.looked_in = dict(looked_in)
        tried = "; ".join(f"{place}: {why}" for place, why in looked_in.items())
        super().__init__(
            f"no Postgres binaries were found ({tried}): install holdfast[embedded], "
            "or set HOLDFAST_PG_BIN to a directory with initdb and postgres"
        )


class DataDirectoryError(EmbeddedError):
    """The data directory cannot be used as it is."""


class DataVersionMismatch(DataDirectoryError):
    def __init__(self, *, directory: str, found: str, binaries: str) -> None:
        self.directory, self.found, self.binaries = directory, found, binaries
        super().__init__(
            f"{directory} was written by Postgres {found}, the binaries here are {binaries}: point "
            f"HOLDFAST_PG_BIN at Postgres {found}, or move the directory away to start afresh"
        )


class DiskFull(DataDirectoryError):
    def __init__(self, directory: str) -> None:
        self.directory = directory
        super().__init__(f"no space left for {directory}: free some, or choose another data directory")


class OutOfReach(EmbeddedError):
    def __init__(self, path: str, *, closed: str, user: str) -> None:
        self.path, self.closed, self.user = path, closed, user
        super().__init__(
            f"Postgres refuses to run as root and runs as {user} here, who cannot reach {path} because "
            f"{closed} is closed to others: start it as a normal user, allow user namespaces, or choose "
            f"another place"
        )


class SocketPathTooLong(EmbeddedError):
    def __init__(self, path: str, *, limit: int) -> None:
        self.path, self.limit = path, limit
        super().__init__(
            f"a unix socket at {path} would be {len(path.encode())} bytes, the limit is {limit}: "
            "choose a shorter directory for sockets"
        )


class ServerStartFailed(EmbeddedError):
    def __init__(self, directory: str, *, log_tail: str) -> None:
        self.directory, self.log_tail = directory, log_tail
        super().__init__(f"Postgres did not start in {directory}; its log ends with:\n{log_tail}")


class HoldfastWarning(UserWarning):
    """It works, but probably not as you meant it. Shown once for each line that it comes from."""


class OutsideTransaction(HoldfastWarning):
    """A job or an event was written without `conn` inside a block that commits."""


class BlocksEventLoop(HoldfastWarning):
    """A verb that ends in _sync was called in a thread whose event loop runs."""


def _path(names: list[str]) -> str:
    """Both ends of it, if it is long: the error has to fit into a row."""
    shown = names if len(names) <= 20 else [*names[:5], "…", *names[-14:]]  # noqa: PLR2004  # see above
    return " → ".join(shown) or "nothing"
