"""What operators do with jobs: cancel, retry, resume, rerun, reschedule, reprioritise, move, delete."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from holdfast.app import App
from holdfast.cli.bulk import act_on_all
from holdfast.cli.changing import MANY, Change, changing, in_words_of_options
from holdfast.cli.formats import moment
from holdfast.cli.job_answers import JobAnswer, answer_of, answers_of, not_failed, tell
from holdfast.cli.job_targets import Targets, which_jobs
from holdfast.cli.options import WholeNumber
from holdfast.cli.parameters import parameters_option
from holdfast.cli.shared_options import opened, read_until
from holdfast.domain.duration import compact, duration
from holdfast.domain.job import PRIORITIES
from holdfast.domain.job_filter import JobFilter
from holdfast.domain.outcome import ON_REQUEST
from holdfast.errors import InvalidInput, JobNotFound
from holdfast.insights.bulk_actions import ActionName
from holdfast.storage.jobs_listed import job_detail

ids_argument = click.argument("jobs", type=WholeNumber(1), nargs=-1, required=True, metavar="ID…")


@click.command()
@which_jobs
@changing()
def cancel(*, targets: Targets, change: Change) -> int:
    """End jobs that wait, and ask those that run to stop."""

    def acting(app: App) -> list[JobAnswer]:
        reason = ON_REQUEST if change.reason is None else change.reason
        return answers_of(targets.ids, app.jobs.cancel_sync(targets.ids, reason=reason, by=change.by))

    return _act(change, targets, "cancel", acting)


@click.command()
@which_jobs
@changing()
def retry(*, targets: Targets, change: Change) -> int:
    """Run failed jobs from their start, with all attempts and nothing saved. To run the finished steps of a
    flow again needs a confirmation: `resume` keeps them.
    """
    with opened(change.dsn, change.schema) as app:
        flows = [
            job
            for job in targets.ids
            if any(row.has_steps for row in app.run_sync(job_detail(app.schema, job)))
        ]
    if flows:
        what = f"discard the finished steps of flow {flows[0]} and run them again"
        refused = change.refused(f"{what} (holdfast flows resume {flows[0]} keeps them)")
        if refused is not None:
            return refused

    def acting(app: App) -> list[JobAnswer]:
        return _told_apart(
            app, targets.ids, app.jobs.retry_sync(targets.ids, reason=change.reason, by=change.by)
        )

    return _act(change, targets, "retry", acting)


@click.command()
@which_jobs
@changing()
def resume(*, targets: Targets, change: Change) -> int:
    """Give failed jobs one more attempt, with the state and the steps that they saved."""

    def acting(app: App) -> list[JobAnswer]:
        return _told_apart(
            app, targets.ids, app.jobs.resume_sync(targets.ids, reason=change.reason, by=change.by)
        )

    return _act(change, targets, "resume", acting)


@click.command()
@ids_argument
@parameters_option("Change an argument. The others stay as they are, secrets too.")
@changing()
def rerun(jobs: Sequence[int], *, parameters: Mapping[str, Any], change: Change) -> int:
    """Enqueue new jobs with the policy and the arguments of these."""

    def acting(app: App) -> list[JobAnswer]:
        # All of them are looked at before the first is enqueued: a refusal leaves nothing half done.
        edited = {job: _edited(app, job, parameters) for job in dict.fromkeys(jobs)}
        return [_rerun(app, job, args, change) for job, args in edited.items()]

    return _act_on_ids(change, jobs, "run again", acting)


@click.command()
@which_jobs
@click.argument("when", callback=read_until)
@changing()
def reschedule(*, targets: Targets, when: datetime | str, change: Change) -> int:
    """Let waiting jobs run at another time WHEN: 2h from now, 0s for now, or 2026-01-31T09:00 (UTC)."""
    to = f"at {moment(when)} UTC" if isinstance(when, datetime) else f"in {compact(duration(when))}"

    def acting(app: App) -> list[JobAnswer]:
        answers = app.jobs.reschedule_sync(targets.ids, when, reason=change.reason, by=change.by)
        return answers_of(targets.ids, answers, to="now" if to == "in 0s" else to)

    return _act(change, targets, "reschedule", acting, when=when)


@click.command()
@which_jobs
@click.option(
    "--to",
    "priority",
    type=WholeNumber(PRIORITIES[0], PRIORITIES[-1]),
    required=True,
    metavar="PRIORITY",
    help="0 (most urgent) to 9.",
)
@changing()
def reprioritise(*, targets: Targets, priority: int, change: Change) -> int:
    """Give jobs another priority. One that runs has it from its next attempt on."""

    def acting(app: App) -> list[JobAnswer]:
        answers = app.jobs.reprioritise_sync(targets.ids, priority, reason=change.reason, by=change.by)
        return answers_of(targets.ids, answers, to=priority)

    return _act(change, targets, "reprioritise", acting, priority=priority)


@click.command()
@which_jobs
@click.option("--to", "queue", required=True, metavar="QUEUE", help="The queue to put them into.")
@click.option("--create", is_flag=True, help="Accept a name that no job, schedule or worker uses yet.")
@changing()
def move(*, targets: Targets, queue: str, create: bool, change: Change) -> int:
    """Put waiting jobs into another queue."""

    def acting(app: App) -> list[JobAnswer]:
        with in_words_of_options():
            answers = app.jobs.move_sync(
                targets.ids, queue, create=create, reason=change.reason, by=change.by
            )
        return answers_of(targets.ids, answers, to=queue)

    return _act(change, targets, "move", acting, queue=queue, create=create)


@click.command()
@which_jobs
@changing()
def delete(*, targets: Targets, change: Change) -> int:
    """Delete jobs that ended or wait for their turn, with all that is known of them."""

    def acting(app: App) -> list[JobAnswer]:
        return answers_of(targets.ids, app.jobs.delete_sync(targets.ids, reason=change.reason, by=change.by))

    return _act(change, targets, "delete", acting)


VERBS = (cancel, retry, resume, rerun, reschedule, reprioritise, move, delete)


def _act(
    change: Change,
    targets: Targets,
    action: ActionName,
    acting: Callable[[App], list[JobAnswer]],
    **parameters: Any,
) -> int:
    job_filter = targets.filter_for(action)
    if job_filter is not None:
        return act_on_all(change, action, job_filter, parameters, is_dry_run=targets.is_dry_run)
    return _act_on_ids(change, targets.ids, action, acting, always_asks=action == "delete")


def _act_on_ids(
    change: Change,
    jobs: Sequence[int],
    verb: str,
    acting: Callable[[App], list[JobAnswer]],
    *,
    always_asks: bool = False,
) -> int:
    change.say_where()
    count = len(set(jobs))
    if always_asks or count > MANY:
        refused = change.refused(f"{verb} {count:,} jobs" if count > 1 else f"{verb} job {jobs[0]}")
        if refused is not None:
            return refused
    with opened(change.dsn, change.schema) as app:
        answers = acting(app)
    return tell(answers, as_json=change.as_json)


def _told_apart(app: App, jobs: Sequence[int], answers: Mapping[int, str]) -> list[JobAnswer]:
    """A job that has not failed is unknown to retry and resume. An operator wants to know which it is."""
    unknown = tuple(job for job, answer in answers.items() if answer == "unknown")
    states: dict[int, str] = {}
    if unknown:
        page = app.jobs.list_sync(JobFilter(ids=unknown), limit=len(unknown))
        states = {job.id: job.state for job in page.jobs}
    return [
        not_failed(each.job, states[each.job]) if each.job in states else each
        for each in answers_of(jobs, answers)
    ]


def _edited(app: App, job: int, changes: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """All arguments with the changed ones, and a mask where a secret stays; None if nothing is changed."""
    if not changes:
        return None
    try:
        shown = app.jobs.show_sync(job)
    except JobNotFound:
        return None
    if not isinstance(shown.args, dict):
        raise InvalidInput(
            f'no worker has stored what is secret in "{shown.summary.kind}": start one that knows it, or '
            f"run job {job} again without -p"
        )
    return {**shown.args, **changes}


def _rerun(app: App, job: int, args: Mapping[str, Any] | None, change: Change) -> JobAnswer:
    try:
        new = app.jobs.rerun_sync(job, args=args, reason=change.reason, by=change.by)
    except JobNotFound:
        return answer_of(job, "unknown")
    return answer_of(job, "enqueued", to=new)
