"""What `holdfast doctor` makes of the facts: findings, each with what to do. Decides only; asks nothing."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from holdfast.domain.duration import compact
from holdfast.domain.ring import Ring
from holdfast.insights.harmful_settings import Level, harms
from holdfast.insights.overview_records import Attention, AttentionReason
from holdfast.postgres.pooler_detection import PoolerMode
from holdfast.postgres.schema import Schema
from holdfast.storage.doctor import DeadRows, MissingRights, OldTransaction, ServerFacts, WorkFacts

FindingCode = Literal[
    "unreachable",
    "server_too_old",
    "schema_missing",
    "schema_outdated",
    "missing_rights",
    "read_only",
    "encoding",
    "clock_skew",
    "few_connections",
    "notify_queue_full",
    "setting",
    "unseen_sessions",
    "pooler",
    "no_notifications",
    "long_transaction",
    "tables_locked",
    "dead_rows",
    "ring_stuck",
    "quiet_worker",
    "promote_behind",
    "prune_behind",
    "fold_behind",
    "plans_behind",
    "not_looked",
    AttentionReason,
]

_FULL_NOTIFICATIONS: Final = 0.5
_DRAINED_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Finding:
    """`level`: an `error` keeps jobs from running, a `warning` will cost speed or safety, a `note` is good to
    know. `advice` says what to do; empty if there is nothing to do.
    """

    code: FindingCode
    level: Level
    sentence: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """From when on something is worth telling."""

    transaction: timedelta = timedelta(minutes=10)
    locks: timedelta = timedelta(minutes=1)
    dead_rows: int = 100_000
    connections: int = 10
    skew: timedelta = timedelta(seconds=5)
    lag: timedelta = timedelta(minutes=1)
    prune_lag: timedelta = timedelta(hours=1)
    wait: timedelta = timedelta(minutes=5)


def of_server(facts: ServerFacts, *, here: datetime, limits: Thresholds) -> Iterator[Finding]:
    """`here` is this machine's time at the middle of the question."""
    if facts.is_standby:
        yield Finding(
            "read_only",
            "error",
            "This server is a standby: it can be read, but no job can be written or run.",
            "Connect to the primary; a DSN with several hosts and target_session_attrs=read-write finds it.",
        )
    if facts.encoding != "UTF8":
        yield Finding(
            "encoding",
            "error",
            f"The database has the encoding {facts.encoding}: names and arguments are UTF-8.",
            "Create a database with encoding 'UTF8', and migrate there.",
        )
    skew = abs(facts.now - here)
    if skew > limits.skew:
        yield Finding(
            "clock_skew",
            "note",
            f"The clocks of this machine and of the server differ by {compact(skew)}. The database's clock "
            "decides about jobs, so only times in logs disagree.",
            "Check NTP on both machines.",
        )
    if facts.connections_left < limits.connections:
        yield Finding(
            "few_connections",
            "warning",
            f"Only {facts.connections_left} connections are left on this server.",
            "Raise max_connections, lower the pools of your apps, or put a pooler in front.",
        )
    if facts.notifications > _FULL_NOTIFICATIONS:
        yield Finding(
            "notify_queue_full",
            "warning",
            f"The queue of notifications is {facts.notifications:.0%} full; when it is full, commits fail.",
            "A session that listens has an old transaction: end it, see long_transaction.",
        )
    if facts.unseen:
        yield Finding(
            "unseen_sessions",
            "note",
            f"{facts.unseen} sessions of other roles cannot be looked at, so that long transactions may be "
            "missing here.",
            "grant pg_read_all_stats to the role that runs doctor.",
        )
    yield from of_settings(dict(each.split("=", 1) for each in facts.settings))


def of_settings(settings: Mapping[str, str]) -> Iterator[Finding]:
    for harm, value in harms(settings):
        yield Finding("setting", harm.level, f"{harm.name} is {value}: {harm.why}", harm.advice)


def of_way(pooler: PoolerMode, *, is_delivered: bool) -> Iterator[Finding]:
    """What sits between this machine and the server, and whether notifications come through."""
    if pooler is PoolerMode.TRANSACTION_POOLER:
        yield Finding(
            "pooler",
            "note",
            "There is a transaction-mode pooler in between: no prepared statements, and no LISTEN. Workers "
            "find jobs by polling, every 5 s.",
            "Give workers a direct connection or a session-mode pool; producers may stay behind the pooler.",
        )
    elif not is_delivered:
        yield Finding(
            "no_notifications",
            "warning",
            "A notification did not arrive within 3 s. Workers find jobs by polling, every 5 s.",
            "Look for a proxy in between, and at the server's load.",
        )


def of_rights(missing: Iterable[MissingRights], schema: Schema, role: str) -> Iterator[Finding]:
    for each in missing:
        rights, name = ", ".join(each.missing), f"{schema.name}.{each.table}"
        kind = "sequence" if each.missing == ["usage"] else "table"
        yield Finding(
            "missing_rights",
            "error",
            f"{role} lacks {rights} on {name}, which a worker needs.",
            f"As the owner: grant {rights} on {kind} {name} to {role};",
        )


def of_transactions(found: Iterable[OldTransaction], schema: Schema, limits: Thresholds) -> Iterator[Finding]:
    for each in found:
        lasting = f"has been open for {compact(each.lasting)}"
        what = f'A transaction of {each.role} that was prepared as "{each.prepared}" {lasting}'
        advice = f"End it: rollback prepared '{each.prepared}';"
        if each.pid is not None:
            program = each.program or "unnamed program"
            what = f"A transaction of {each.role} ({program}, process {each.pid}, {each.state}) {lasting}"
            advice = f"End it: select pg_terminate_backend({each.pid});"
        if each.tables and each.lasting > limits.locks:
            named = ", ".join(f"{schema.name}.{table}" for table in each.tables[:5])
            yield Finding(
                "tables_locked",
                "warning",
                f"{what}, and holds locks on {named}: segments cannot be truncated meanwhile.",
                advice,
            )
        elif each.lasting > limits.transaction:
            yield Finding(
                "long_transaction",
                "warning",
                f"{what}: vacuum cannot remove what died since.",
                advice,
            )


def of_tables(found: Iterable[DeadRows], schema: Schema) -> Iterator[Finding]:
    for each in found:
        last = "never vacuumed" if each.vacuumed_at is None else f"vacuumed last at {each.vacuumed_at:%F %R}"
        yield Finding(
            "dead_rows",
            "warning",
            f"{schema.name}.{each.table} has {each.dead:,} dead and {each.live:,} live rows ({last}).",
            f"vacuum {schema.name}.{each.table}; if they stay, a long transaction holds them.",
        )


def of_ring(ring: Ring, *, is_led: bool, limits: Thresholds) -> Iterator[Finding]:
    left = [
        segment
        for segment, (size, is_drained) in enumerate(zip(ring.sizes, ring.drained, strict=True))
        if is_drained and size > _DRAINED_BYTES
    ]
    if is_led and left and ring.age > limits.lag:
        named = ", ".join(f"ready_{segment}" for segment in left)
        yield Finding(
            "ring_stuck",
            "warning",
            f"The ring has not turned for {compact(ring.age)}, and {named} is drained but not truncated.",
            "A transaction that enqueued is still open, or a dump runs: see tables_locked.",
        )


def of_attention(found: Iterable[Attention]) -> Iterator[Finding]:
    """What an overview tells too: it is judged in one place, `insights/attention.py`."""
    for each in found:
        yield Finding(each.reason, each.level, each.sentence, each.advice)


def of_chores(facts: WorkFacts, limits: Thresholds) -> Iterator[Finding]:
    for code, lag, most, what in (
        ("promote_behind", facts.promote_lag, limits.lag, "A delayed or retried job has been due"),
        ("prune_behind", facts.prune_lag, limits.prune_lag, "An ended job could have been deleted"),
        ("fold_behind", facts.fold_lag, limits.prune_lag, "Counts of runs have waited to be added up"),
        ("plans_behind", facts.plan_lag, limits.lag, "A schedule has been due"),
    ):
        if lag is not None and lag > most:
            yield Finding(
                code,  # type: ignore[arg-type]  # one of the words above
                "warning",
                f"{what} for {compact(lag)}.",
                "The leader does this: is a worker alive, and does its log tell of a chore that fails?",
            )
    for quiet in facts.quiet:
        yield Finding(
            "quiet_worker",
            "note",
            f"Worker {quiet} is quiet, as an operator asked: it claims no jobs.",
            f"holdfast workers resume {quiet}",
        )
