"""Follows jobs: what has happened to those that match a filter since the last look.

The ledger has no index by time, which every settle would pay for. So a look asks where news can be: which
matching jobs run, which wait for another run, which have ended (by what they are pruned by), and what became
of those that were seen before. Each is a bounded read by a key. A run that is shorter than the time between
two looks and does not end its job can be missed, if many others wait.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.redaction import Redactions
from holdfast.domain.retention import Retention
from holdfast.domain.states import FINAL_STATES
from holdfast.errors import InvalidInput, JobNotFound
from holdfast.insights.job_list import list_page
from holdfast.insights.job_logs import START, Place, lines_of
from holdfast.insights.job_records import JobError, JobPage, JobSummary
from holdfast.insights.tail_records import RunEnded, RunLogged, RunStarted, TailEvent, TailMark, TailPage
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.logs import LogRow
from holdfast.storage.tailing import LogNews, TailRun, ended_since, kept_for, lines_since, runs_since

MOST = 1_000
"""How many jobs of each sort one look asks about."""
_WAITING = 200
_PLACES = 5 * MOST
_LOG_ROWS = 100
# Statements that began earlier may commit later: a look goes back so far.
_OVERLAP = timedelta(seconds=2)
# Lines of a run that ended by a commit of its own come up to this much later.
_AFTERWARDS = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class _Found:
    """The jobs that a look asks about. `since`: what happened before is told already, or is not wanted."""

    jobs: Mapping[int, JobSummary]
    since: datetime | None
    is_cut: bool
    now: datetime


def look(
    schema: Schema,
    asked: str | JobFilter,
    after: TailMark | None,
    *,
    retention: Retention,
    declared: Redactions,
    now: datetime | None = None,
) -> Conversation[TailPage]:
    """Without a mark: what runs now; from then on, what happens. Of jobs that are named by their ids, first
    all that is known.
    """
    job_filter = parse_filter(asked) if isinstance(asked, str) else asked
    if after is not None and not isinstance(after, TailMark):
        raise InvalidInput(f"after is {after!r}: give the `next` of a page")
    mark = TailMark(keeps=_usual(retention) | _usual(Retention())) if after is None else after
    is_named = bool(job_filter.ids)
    search = _named if is_named else _matching
    found = yield from search(schema, job_filter, mark, declared, now)
    runs = yield from ask(
        runs_since(schema, {job: each.worker for job, each in found.jobs.items()}, found.since)
    )
    places = dict(mark.places)
    lines = yield from ask(
        lines_since(
            schema,
            {job: places.get(job) or START for job in found.jobs},
            None if is_named else found.since,
            limit=_LOG_ROWS,
        )
    )
    return _told(found, mark, runs, lines, is_named=is_named)


def _named(
    schema: Schema,
    job_filter: JobFilter,
    mark: TailMark,
    declared: Redactions,
    now: datetime | None,
) -> Conversation[_Found]:
    limit = len(job_filter.ids)
    page = yield from list_page(schema, job_filter, after=None, limit=limit, declared=declared, now=now)
    jobs = {job.id: job for job in page.jobs}
    missing = sorted(set(job_filter.ids) - jobs.keys())
    if missing and job_filter == JobFilter(ids=job_filter.ids) and mark.since is None:
        raise JobNotFound(missing[0])
    return _Found(jobs, mark.since and mark.since - _OVERLAP, is_cut=False, now=page.now)


def _matching(
    schema: Schema,
    job_filter: JobFilter,
    mark: TailMark,
    declared: Redactions,
    now: datetime | None,
) -> Conversation[_Found]:
    def listed(limit: int, **changes: Any) -> Conversation[JobPage]:
        asked = replace(job_filter, **changes)
        return (yield from list_page(schema, asked, after=None, limit=limit, declared=declared, now=now))

    wanted = job_filter.states
    page = yield from listed(MOST, states=("running",))
    since = (mark.since or page.now) - _OVERLAP
    is_cut = page.next is not None
    jobs = {job.id: job for job in page.jobs if not wanted or "running" in wanted}
    if not wanted or "retrying" in wanted or "waiting" in wanted:
        again = yield from listed(_WAITING, states=("retrying", "waiting"))
        jobs |= {job.id: job for job in again.jobs}
    keeps = mark.keeps.union((yield from ask(kept_for(schema))))
    ended = yield from ask(ended_since(schema, since, keeps=sorted(keeps), limit=MOST, now=now))
    others = [job for job in dict.fromkeys([*dict(mark.places), *ended]) if job not in jobs]
    if others:
        rest = yield from listed(len(others[:_PLACES]), ids=tuple(others[:_PLACES]))
        jobs |= {job.id: job for job in rest.jobs}
    return _Found(jobs, since, is_cut or len(ended) >= MOST, page.now)


def _told(
    found: _Found, mark: TailMark, runs: Sequence[TailRun], news: Sequence[LogNews], *, is_named: bool
) -> TailPage:
    is_first = mark.since is None and not is_named
    # What had ended before somebody began to follow is no news.
    told_runs = [run for run in runs if not (is_first and run.outcome is not None)]
    lines, places = _lines(found, mark, news, is_named=is_named)
    if is_first:
        under_way = {run.run for run in told_runs}
        lines = [line for line in lines if line.line.run in under_way]
    latest: dict[int, datetime] = {}
    for line in lines:
        latest[line.line.run] = max(line.time, latest.get(line.line.run, line.time))
    timed: list[tuple[datetime, int, TailEvent]] = [(line.time, 1, line) for line in lines]
    for run in told_runs:
        job = found.jobs[run.job]
        if run.started_at is not None and run.run not in mark.started:
            started = RunStarted(run.started_at, job, run.run, run.attempt, run.worker)
            timed.append((run.started_at, 0, started))
        if run.finished_at is not None and run.run not in mark.ended:
            # Clocks differ: the end of a run comes behind its lines.
            place = max(run.finished_at, latest.get(run.run, run.finished_at))
            timed.append((place, 2, _end(run, job, run.finished_at)))
    timed.sort(key=lambda each: each[:2])
    again = [job for job in found.jobs if is_named or _is_seen_again(found, places, job)]
    is_followed = any(not _is_over(each, found.now, _AFTERWARDS) for each in found.jobs.values())
    return TailPage(
        tuple(event for _, _, event in timed),
        TailMark(
            found.now,
            mark.keeps | {run.kept for run in runs if run.kept is not None},
            frozenset(run.run for run in runs),
            frozenset(run.run for run in runs if run.outcome is not None),
            tuple((job, places.get(job)) for job in again[:_PLACES]),
        ),
        found.is_cut,
        is_named and not is_followed and len(news) < _LOG_ROWS,
        found.now,
    )


def _is_seen_again(found: _Found, places: Mapping[int, Place | None], job: int) -> bool:
    """Whether the next look has to know of it: it has not ended; or its end is within what that look tells
    again, and its lines must not be.
    """
    ended = found.jobs[job]
    if places.get(job) is not None and not _is_over(ended, found.now, 2 * _OVERLAP):
        return True
    return not _is_over(ended, found.now, _AFTERWARDS)


def _lines(
    found: _Found, mark: TailMark, news: Sequence[LogNews], *, is_named: bool
) -> tuple[list[RunLogged], dict[int, Place | None]]:
    """The lines that are news, and the last line of each job that is known."""
    places = dict(mark.places)
    by_job: dict[int, list[LogRow]] = {}
    for row in news:
        by_job.setdefault(row.job, []).append(LogRow(row.run, row.first, row.lines))
    logged = []
    for job, rows in by_job.items():
        place = places.get(job) or (START if is_named else None)
        for line in lines_of(rows, place):
            if place is None or (line.run, line.number) > place:
                logged.append(RunLogged(line.time, found.jobs[job], line))
                place = line.run, line.number
        places[job] = place
    return logged, places


def _end(run: TailRun, job: JobSummary, finished_at: datetime) -> RunEnded:
    assert run.outcome is not None  # noqa: S101  # it has ended
    return RunEnded(
        finished_at,
        job,
        run.run,
        run.attempt,
        run.worker,
        run.outcome,
        run.is_final,
        None if run.started_at is None else finished_at - run.started_at,
        JobError.listed(run.error_code, run.error_type, run.error_message),
        run.flag,
    )


def _usual(retention: Retention) -> frozenset[timedelta]:
    """For how long jobs are kept that do not say so themselves. Ends that are seen teach more."""
    return frozenset({timedelta(), retention.succeeded, retention.dead, retention.other})


def _is_over(job: JobSummary, now: datetime, since: timedelta) -> bool:
    """Whether it ended at least so long ago."""
    return job.state in FINAL_STATES and (job.finished_at is None or now - job.finished_at >= since)
