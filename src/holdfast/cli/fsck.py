"""`holdfast fsck`: whether every job is in exactly one place, and what is left over; mends it with --fix."""

import click

from holdfast.app import App
from holdfast.cli.changing import Change, changing
from holdfast.cli.exit_codes import Exit
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import how_many
from holdfast.cli.progress import progress
from holdfast.cli.shared_options import opened
from holdfast.insights.fsck import Damage, FsckProgress, FsckReport

_MEND = "mend what is damaged in this database, while its workers run"


@click.command()
@click.option("--fix", is_flag=True, help="Mend what is damaged, in small transactions, beside the workers.")
@changing()
def fsck(*, fix: bool, change: Change) -> int:
    """Check that every job is in exactly one place, and that nothing is left over.

    It reads every table, a part at a time, while workers run. Exit code 5: something is damaged.
    """
    if fix:
        change.say_where()
        refused = change.refused(_MEND)
        if refused is not None:
            return refused
    with opened(change.dsn, change.schema) as app:
        report = _checked(app, change, fix=fix)
    click.echo(told_as_json(report) if change.as_json else _in_words(report))
    return Exit.OK if report.is_sound else Exit.UNHEALTHY


def _checked(app: App, change: Change, *, fix: bool) -> FsckReport:
    looked: dict[int, int] = {}
    with progress("fsck", unit="rows") as shown:

        def tell(at: FsckProgress) -> None:
            looked[at.check] = at.looked
            shown.at(sum(looked.values()), what=f"{at.check} of {at.checks}: {at.of}")

        return app.fsck_sync(fix=fix, by=change.by, reason=change.reason, on_progress=tell)


def _in_words(report: FsckReport) -> str:
    looked = f"looked at {how_many(report.jobs, 'job')}"
    if not report.damages:
        return f"{looked}: all is well"
    blocks = [_block(damage, is_fixing=report.is_fixing) for damage in report.damages]
    fixed = sum(damage.fixed for damage in report.damages)
    count = sum(damage.count for damage in report.damages)
    end = f"{looked}: {count:,} damaged, {fixed:,} mended"
    if not report.is_fixing:
        end = f"{looked}: {count:,} damaged; holdfast fsck --fix mends them"
    return "\n\n".join([*blocks, end])


def _block(damage: Damage, *, is_fixing: bool) -> str:
    state = f"{damage.fixed:,} of {damage.count:,} mended" if is_fixing else f"{damage.count:,} found"
    lines = [f"{click.style(damage.code, bold=True)}  {state}"]
    if damage.jobs:
        more = damage.count - len(damage.jobs)
        named = ", ".join(map(str, damage.jobs)) + (f" and {more:,} more" if more else "")
        lines.append(f"  jobs    {named}")
    lines += [f"  means   {damage.sentence}", f"  --fix   {damage.remedy}"]
    return "\n".join(lines)
