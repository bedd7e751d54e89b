"""`holdfast enqueue`: a job by the name of its kind, checked by what workers have stored of that kind."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import click

from holdfast.app import App
from holdfast.cli.changing import Change, changing
from holdfast.cli.exit_codes import Exit
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.options import WholeNumber, length
from holdfast.cli.parameters import parameters_option
from holdfast.cli.shared_options import opened, read_time
from holdfast.cli.tail import follow as follow_job
from holdfast.domain.job import PRIORITIES
from holdfast.domain.job_filter import JobFilter
from holdfast.errors import InvalidArguments, JobEnded, JobNotFound
from holdfast.insights.job_records import JobDetail, Reason
from holdfast.storage.jobs import Enqueued

_UNSERVED: tuple[Reason, ...] = (
    "queue_paused",
    "no_worker",
    "queue_unserved",
    "kind_unknown",
    "no_worker_for_both",
)


def _length_or_none(ctx: click.Context, param: click.Parameter, value: str | None) -> timedelta | None:
    return None if value is None else length(ctx, param, value)


@click.command()
@click.argument("kind")
@parameters_option("An argument: name=text, or name:=JSON for anything else.")
@click.option("--queue", metavar="QUEUE", help="Which queue; without it, the kind's own.")
@click.option("--at", callback=read_time, metavar="TIME", help="When, such as 2026-01-31T09:00 (UTC).")
@click.option(
    "--in",
    "delay",
    callback=_length_or_none,
    metavar="LENGTH",
    help="In how long, such as 5m.",
)
@click.option(
    "--priority",
    type=WholeNumber(PRIORITIES[0], PRIORITIES[-1]),
    help="0 (most urgent) to 9; without it, the kind's own.",
)
@click.option("--unique-key", "unique", metavar="KEY", help="Not if an active job of the queue has this key.")
@click.option(
    "--debounce",
    callback=_length_or_none,
    metavar="LENGTH",
    help="With --unique-key: run it when no other came for so long; a waiting one gets these arguments.",
)
@click.option(
    "--max-wait", callback=_length_or_none, metavar="LENGTH", help="Put it off for so long at most."
)
@click.option(
    "--unique-for",
    callback=_length_or_none,
    metavar="LENGTH",
    help="With --unique-key: keep the key for so long, also after its end.",
)
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="In place of the kind's own; may be repeated."
)
@click.option("--force", is_flag=True, help="Also a kind that no worker has declared, with any arguments.")
@click.option("--wait", is_flag=True, help="Wait until it has ended, and print its result or its error.")
@click.option(
    "--follow", is_flag=True, help="Wait, and print on stderr when it runs and what it logs, if that is kept."
)
@changing(asks=False)
def enqueue(
    kind: str,
    *,
    parameters: Mapping[str, Any],
    queue: str | None,
    at: datetime | None,
    delay: timedelta | None,
    priority: int | None,
    unique: str | None,
    debounce: timedelta | None,
    max_wait: timedelta | None,
    unique_for: timedelta | None,
    tags: Sequence[str],
    force: bool,
    wait: bool,
    follow: bool,
    change: Change,
) -> int:
    """Enqueue a job of a KIND, with the kind's own queue, attempts, backoff and timeout."""
    change.say_where()
    with opened(change.dsn, change.schema) as app:
        try:
            done = app.kinds.enqueue_sync(
                kind,
                parameters,
                queue=queue,
                priority=priority,
                tags=tags or None,
                at=at,
                delay=delay,
                unique=unique,
                debounce=debounce,
                max_wait=max_wait,
                unique_for=unique_for,
                force=force,
                reason=change.reason,
                by=change.by,
            )
        except InvalidArguments as error:
            raise _with_advice(error, parameters) from None
        _warn_if_unserved(app, done.job)
        if wait or follow:
            if not change.as_json:
                click.echo(_enqueued(done, is_debounced=debounce is not None), err=True)
            if follow:
                with suppress(JobNotFound):  # a kind with keep=0
                    follow_job(app, JobFilter(ids=(done.job,)), as_json=change.as_json, is_err=True)
            return _wait(app, done, as_json=change.as_json)
    told = _enqueued(done, is_debounced=debounce is not None)
    click.echo(told_as_json(_facts(done)) if change.as_json else told)
    return Exit.OK


def _with_advice(error: InvalidArguments, given: Mapping[str, Any]) -> Exception:
    """All that `=` gives is text, which is easily forgotten."""
    name = error.parameter
    if name is not None and isinstance(given.get(name), str) and error.problem.endswith("not text"):
        return click.UsageError(f"{error}: write {name}:=… in place of {name}=…", click.get_current_context())
    return error


def _warn_if_unserved(app: App, job: int) -> None:
    explanation = app.jobs.explain_sync(job)
    if explanation.reason in _UNSERVED:
        click.echo(f"holdfast: warning: {explanation}", err=True)


def _enqueued(done: Enqueued, *, is_debounced: bool) -> str:
    if done.is_new:
        return f"job {done.job} is enqueued"
    if is_debounced:
        return f"job {done.job} waits with this unique key: it has these arguments now"
    return f"job {done.job} has this unique key: nothing was enqueued"


def _facts(done: Enqueued) -> dict[str, object]:
    return {"job": done.job, "is_new": done.is_new}


def _wait(app: App, done: Enqueued, *, as_json: bool) -> int:
    try:
        app.handle(done.job).result_sync()
    except JobEnded:
        pass
    except JobNotFound:
        return _not_kept(done, as_json=as_json)
    try:
        # Not what the handle answers: the result that people see has a mask in place of secrets.
        detail = app.jobs.show_sync(done.job)
    except JobNotFound:
        return _not_kept(done, as_json=as_json)
    summary = detail.summary
    if as_json:
        error = None if summary.state == "succeeded" else summary.error
        click.echo(
            told_as_json({**_facts(done), "state": summary.state, "result": detail.result, "error": error})
        )
    elif summary.state == "succeeded":
        _print_result(detail)
    else:
        reason = f": {summary.error}" if summary.error else ""
        click.echo(f"holdfast: job {done.job} {_ENDED[summary.state]}{reason}", err=True)
    return Exit.OK if summary.state == "succeeded" else Exit.FAILED


_ENDED = {"failed": "failed", "cancelled": "was cancelled", "expired": "expired"}


def _print_result(detail: JobDetail) -> None:
    if detail.summary.flag is not None:
        click.echo(f"holdfast: warning: its result is not kept: {detail.summary.flag}", err=True)
    click.echo(told_as_json(detail.result))


def _not_kept(done: Enqueued, *, as_json: bool) -> int:
    """A kind with keep=0: nothing is left to tell by."""
    if as_json:
        click.echo(told_as_json({**_facts(done), "state": None, "result": None, "error": None}))
    click.echo(f"holdfast: job {done.job} has ended and was not kept: how it ended is not known", err=True)
    return Exit.FAILED
