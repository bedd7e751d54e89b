"""One action on all jobs that match a filter: the preview, the question, the operation and its progress.

The operation is durable: if this process is interrupted, the leader of the workers goes on with it.
"""

from collections.abc import Mapping
from typing import Any

import click

from holdfast.cli.changing import Change, in_words_of_options
from holdfast.cli.exit_codes import Exit
from holdfast.cli.formats import as_json
from holdfast.cli.progress import progress
from holdfast.cli.shared_options import opened
from holdfast.domain.job_filter import JobFilter
from holdfast.errors import DatabaseError
from holdfast.insights.bulk_actions import ActionName
from holdfast.insights.operation_steps import Operation, Preview


def act_on_all(
    change: Change,
    action: ActionName,
    job_filter: JobFilter,
    parameters: Mapping[str, Any],
    *,
    is_dry_run: bool,
) -> int:
    """Says what it would do, asks, and does it. An exit code: 3 if the filter matches nothing, and has a name
    that nothing is called.
    """
    change.say_where()
    with opened(change.dsn, change.schema) as app, in_words_of_options():
        preview = app.operations.preview_sync(action, job_filter, **parameters)
        if is_dry_run and change.as_json:
            click.echo(as_json(preview))
            return Exit.OK
        for line in preview_lines(action, job_filter, preview):
            click.echo(line, err=True)
        if is_dry_run or (not preview.eligible and not preview.is_capped and not change.as_json):
            return Exit.NOT_FOUND if preview.hints and not is_dry_run else Exit.OK
        refused = change.refused(f"{action} {so_many(preview)}", word=action)
        if refused is not None:
            return refused
        begun = app.operations.start_sync(
            action, job_filter, by=change.by, reason=change.reason, **parameters
        )
        total = None if preview.is_capped else preview.eligible + sum(preview.skipped.values())
        try:
            with progress(action, total=total, unit="jobs") as shown:
                done = app.operations.finish_sync(begun.id, on_progress=lambda each: shown.at(each.seen))
        except (KeyboardInterrupt, DatabaseError):
            click.echo(_goes_on(begun.id), err=True)
            raise
    click.echo(as_json(done) if change.as_json else told(done))
    return Exit.NOT_FOUND if preview.hints else Exit.OK


def preview_lines(action: str, job_filter: JobFilter, preview: Preview) -> list[str]:
    matches = "matches" if preview.eligible == 1 and not preview.is_capped else "match"
    lines = [f"{action} would concern {so_many(preview)} that {matches} {job_filter}"]
    if preview.skipped:
        counted = ", ".join(f"{count:,} {state}" for state, count in sorted(preview.skipped.items()))
        lines.append(f"  skipped: {counted} ({preview.rule})")
    return [*lines, *(f"  {hint}" for hint in preview.hints)]


def so_many(preview: Preview) -> str:
    count = f"{preview.eligible:,}{'+' if preview.is_capped else ''}"
    return f"{count} job{'' if count == '1' else 's'}"


def told(operation: Operation) -> str:
    return f"operation {operation.id} is {operation.state}: {counted(operation) or 'no job was concerned'}"


def counted(operation: Operation) -> str:
    return ", ".join(f"{count:,} {answer}" for answer, count in sorted(operation.counts.items()))


def _goes_on(operation: int) -> str:
    return (
        f"holdfast: operation {operation} goes on in the leader of your workers\n"
        f"  look at it with: holdfast operations show {operation}\n"
        f"  stop it with: holdfast operations stop {operation}"
    )
