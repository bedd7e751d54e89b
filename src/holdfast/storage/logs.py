"""Log lines that are kept with their jobs."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from holdfast.domain.job import check_ids, check_limit
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement


class LogLines(NamedTuple):
    """Lines of one run that are written together, as JSON text. `first` and `last` are their numbers."""

    job: int
    run: int
    first: int
    last: int
    lines: str


class LogTrim(NamedTuple):
    """A run keeps no lines up to this number any more."""

    job: int
    run: int
    last: int


class LogRow(NamedTuple):
    run: int
    first: int
    lines: str


_PUT = statement("log_put", int, is_repeatable=True)
_TRIM = statement("log_trim", int, is_repeatable=True)
_READ = statement("log_read", LogRow, is_repeatable=True)
_NEWEST = statement("log_newest", LogRow, is_repeatable=True)


def put_lines(schema: Schema, written: Sequence[LogLines], *, now: datetime | None = None) -> Statement[int]:
    """Keep lines of runs, whether they still have their lease or not."""
    return _PUT.with_params(
        schema,
        jobs=[each.job for each in written],
        runs=[each.run for each in written],
        firsts=[each.first for each in written],
        lasts=[each.last for each in written],
        lines=[each.lines for each in written],
        now=now,
    )


def trim_lines(schema: Schema, trims: Sequence[LogTrim]) -> Statement[int]:
    return _TRIM.with_params(
        schema,
        jobs=[each.job for each in trims],
        runs=[each.run for each in trims],
        lasts=[each.last for each in trims],
    )


def read_lines(
    schema: Schema, job: int, *, run: int | None = None, after: tuple[int, int] = (0, 0), limit: int
) -> Statement[LogRow]:
    """The lines behind a run and number, oldest first. Rows may hold more lines than asked for."""
    check_ids([job])
    check_limit(limit)
    return _READ.with_params(schema, job=job, run=run, after_run=after[0], after_last=after[1], limit=limit)


def newest_lines(schema: Schema, job: int, *, limit: int) -> Statement[LogRow]:
    check_ids([job])
    check_limit(limit)
    return _NEWEST.with_params(schema, job=job, limit=limit)
