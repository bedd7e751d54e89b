"""How groups of failures look: as cells and sentences for people, as JSON for programs."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from holdfast.cli import jobs_output as jobs
from holdfast.cli.formats import distance, moment
from holdfast.cli.table import Columns
from holdfast.insights.failure_records import DeadLetters, FailureDetail, FailurePage

COLUMNS = Columns(
    ("FINGERPRINT", "1H", "24H", "7D", "LAST", "FIRST", "KINDS", "FAILURE", "WHERE"),
    flexible=("WHERE", "KINDS", "FAILURE"),
    spare=("FIRST", "7D", "WHERE"),
)


def rows(page: FailurePage) -> list[tuple[str, ...]]:
    return [
        (
            group.fingerprint,
            f"{group.last_hour:,}",
            f"{group.last_day:,}",
            f"{group.last_week:,}",
            distance(group.last_seen_at, page.now),
            distance(group.first_seen_at, page.now),
            ", ".join(group.kinds),
            first_line(str(group)),
            group.frame or "",
        )
        for group in page.groups
    ]


def facts(detail: FailureDetail) -> Iterator[tuple[str, str]]:
    """What `show` says, line by line."""
    group = detail.group
    yield "failed", f"{group.last_hour:,} in 1h, {group.last_day:,} in 24h, {group.last_week:,} in 7d"
    yield (
        "last",
        f"{moment(group.last_seen_at)} UTC, {distance(group.last_seen_at, detail.now)}, job {group.job}",
    )
    yield "first", f"{moment(group.first_seen_at)} UTC, {distance(group.first_seen_at, detail.now)}"
    yield "message", first_line(group.message)
    if group.frame is not None:
        yield "where", group.frame
    yield "kinds", ", ".join(group.kinds)
    yield "queues", ", ".join(group.queues)
    advice = (
        f"; run them again with: holdfast failures retry {group.fingerprint}" if detail.dead.count else ""
    )
    yield "dead", f"{so_many(detail.dead, None)}{advice}"


def traceback_lines(detail: FailureDetail) -> Iterator[str]:
    if detail.traceback is not None:
        yield ""
        yield from jobs.marked_traceback(detail.traceback, detail.frames)


def so_many(dead: DeadLetters, limit: int | None) -> str:
    """`3 dead letters`; at most `limit` of them."""
    if limit is not None and (dead.has_more or limit < dead.count):
        return f"{limit:,} of {dead} dead letters"
    return f"{dead} dead letter{'' if dead.count == 1 and not dead.has_more else 's'}"


def how_many(dead: DeadLetters, limit: int | None) -> int | None:
    """How many will be looked at; None if that was not counted."""
    if dead.has_more:
        return limit
    return dead.count if limit is None else min(limit, dead.count)


def counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {answer}" for answer, count in counts.items()) or "there are no dead letters"


def first_line(text: str) -> str:
    return text.splitlines()[0] if text else ""


def detail_facts(detail: FailureDetail) -> dict[str, Any]:
    """One object: what a list shows, and beside it what only `show` knows."""
    told = asdict(detail)
    group = told.pop("group")
    told.pop("now")
    return {**group, **told}
