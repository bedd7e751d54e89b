"""Reads the log lines that are kept with a job: page by page, or the newest."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from holdfast.domain.job import check_ids, check_limit, is_whole
from holdfast.errors import InvalidInput, JobNotFound
from holdfast.insights.log_records import LogLine, LogPage
from holdfast.insights.page_cursor import log_cursor, read_log_cursor
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.job_lookup import find
from holdfast.storage.logs import LogRow, newest_lines, read_lines

Place = tuple[int, int]
"""A run, and the number of one of its lines."""

START: Place = (0, 0)


def log_page(
    schema: Schema, job: int, *, run: int | None, after: str | None, limit: int
) -> Conversation[LogPage]:
    """JobNotFound if there is no such job. A job that keeps no lines has none."""
    check_ids([job])
    check_limit(limit)
    if run is not None and (not is_whole(run) or run < 1):
        raise InvalidInput(f"run is {run!r}: give the number of a run, as app.jobs.show(job).runs has it")
    place = START if after is None else read_log_cursor(after)
    rows = yield from ask(read_lines(schema, job, run=run, after=place, limit=limit + 1))
    if not rows and not (yield from ask(find(schema, job))):
        raise JobNotFound(job)
    lines = [line for line in lines_of(rows, place) if (line.run, line.number) > place]
    shown = lines[:limit]
    last = (shown[-1].run, shown[-1].number) if shown else place
    return LogPage(tuple(shown), log_cursor(*last), len(lines) > limit)


def newest(schema: Schema, job: int, limit: int) -> Conversation[tuple[tuple[LogLine, ...], bool]]:
    """The newest lines, oldest first, and whether there are older ones."""
    rows = yield from ask(newest_lines(schema, job, limit=limit + 1))
    lines = list(lines_of(rows[::-1], None))
    return tuple(lines[-limit:]), len(lines) > limit


def lines_of(rows: Sequence[LogRow], after: Place | None) -> Iterator[LogLine]:
    """The lines in rows of one job, oldest first. `after` is the line before them, if that is known: a number
    that is missing behind it was dropped.
    """
    last = after
    for row in rows:
        for number, line in enumerate(json.loads(row.lines), row.first):
            before = number - 1 if last is None else last[1] if last[0] == row.run else 0
            last = row.run, number
            yield LogLine(
                row.run,
                number,
                datetime.fromtimestamp(line["time"], UTC),
                line["level"],
                line["logger"],
                line["message"],
                max(number - 1 - before, 0),
            )
