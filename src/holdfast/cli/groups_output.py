"""How a group looks to people: cells of a list, lines of `show`."""

from collections.abc import Iterator

from holdfast.cli.formats import age, distance, length, moment
from holdfast.cli.state_look import Cell, marked
from holdfast.cli.table import Columns
from holdfast.domain.group import GroupCounts
from holdfast.insights.group_records import GroupDetail, GroupStatus

COLUMNS = Columns(
    (
        "ID",
        "STATE",
        "NAME",
        "MEMBERS",
        "ENDED",
        "SUCCEEDED",
        "FAILED",
        "THEN",
        Cell("CREATED (UTC)", on_terminal="CREATED"),
    ),
    flexible=("NAME", "THEN"),
    spare=("SUCCEEDED", "CREATED (UTC)"),
)
AWAITED_HEADS = ("MEMBER", "JOB", "KIND", "STATE", "DUE")
_OTHER_WAYS = ("failed", "cancelled", "expired", "gone")


def line(status: GroupStatus) -> tuple[str, ...]:
    counts = status.counts
    return (
        str(status.id),
        _state(status),
        status.name or "",
        f"{counts.members:,}",
        _percent(counts),
        f"{counts.succeeded:,}",
        Cell(f"{counts.unsuccessful:,}", "red" if counts.unsuccessful else ""),
        _follows(status),
        age(status.created_at, status.now),
    )


def title(status: GroupStatus) -> tuple[str, ...]:
    name = () if status.name is None else (status.name,)
    return (f"group {status.id}", _state(status), *name)


def facts(detail: GroupDetail) -> Iterator[tuple[str, str]]:
    """What `show` says, line by line."""
    status = detail.status
    counts = status.counts
    yield "now", detail.sentence
    yield "members", f"{counts.members:,}, {_percent(counts)} ended: {_ways(counts)}"
    if status.then_kind is not None:
        yield "then", status.then_kind
    if status.on_failure_kind is not None:
        yield "on failure", status.on_failure_kind
    if status.then_job is not None:
        yield "follows", f"job {status.then_job}, see: holdfast jobs show {status.then_job}"
    if status.tags:
        yield "tags", ", ".join(status.tags)
    yield "created", f"{moment(status.created_at)} UTC, {distance(status.created_at, status.now)}"
    if status.cancelled_at is not None:
        reason = "" if status.cancel_reason is None else f", {status.cancel_reason}"
        yield "cancelled", f"{moment(status.cancelled_at)} UTC{reason}"
    if status.closed_at is not None:
        took = length(status.closed_at - status.created_at)
        yield "closed", f"{moment(status.closed_at)} UTC, its members took {took}"
    if status.ended_at is not None:
        yield "ended", f"{moment(status.ended_at)} UTC, {distance(status.ended_at, status.now)}"
    yield "jobs", f"see: holdfast jobs list group:{status.id}"


def awaited_rows(detail: GroupDetail) -> list[tuple[str, ...]]:
    now = detail.status.now
    return [
        (
            f"{member.place:,}",
            str(member.job),
            member.kind,
            marked(member.state),
            distance(member.run_at, now),
        )
        for member in detail.awaited
    ]


def _state(status: GroupStatus) -> Cell:
    match status.state:
        case "running" | "finishing":
            return Cell(f"◔ {status.state}", "blue")
        case "cancelling" | "cancelled":
            return Cell(f"⊘ {status.state}", "dim")
        case "ended":
            has_succeeded = status.counts.has_succeeded
            return Cell("✓ ended" if has_succeeded else "✕ ended", "green" if has_succeeded else "red")


def _percent(counts: GroupCounts) -> str:
    """Not 100 % before the last one has ended."""
    return f"{100 * counts.ended // counts.members if counts.members else 100} %"


def _ways(counts: GroupCounts) -> str:
    others = [f"{number:,} {way}" for way in _OTHER_WAYS if (number := getattr(counts, way))]
    return ", ".join([f"{counts.succeeded:,} succeeded", *others])


def _follows(status: GroupStatus) -> str:
    kind = status.on_failure_kind if status.has_failed else status.then_kind
    if kind is None:
        return ""
    return kind if status.then_job is None else f"{kind} {status.then_job}"
