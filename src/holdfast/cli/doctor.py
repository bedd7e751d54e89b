"""`holdfast doctor`: what keeps jobs from running well, and what to do about it."""

import click

from holdfast.cli.exit_codes import Exit
from holdfast.cli.formats import as_json as told_as_json
from holdfast.cli.formats import how_many
from holdfast.cli.shared_options import json_option, opened, where
from holdfast.insights.diagnosis import Finding
from holdfast.insights.doctor import DoctorReport
from holdfast.insights.harmful_settings import Level
from holdfast.postgres.schema import Schema

_COLOURS: dict[Level, str] = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command()
@where
@json_option
def doctor(*, dsn: str | None, schema: Schema, as_json: bool) -> int:
    """Examine the database, its sessions, and the workers; say what is wrong, and what to do about it.

    It changes nothing. Exit code 5: there is an error or a warning.
    """
    with opened(dsn, schema) as app:
        report = app.doctor_sync()
    click.echo(told_as_json(report) if as_json else _in_words(report))
    return Exit.OK if report.is_healthy else Exit.UNHEALTHY


def _in_words(report: DoctorReport) -> str:
    blocks = [_block(finding) for finding in report.findings]
    looked = f"{report.where}: looked at {', '.join(report.looked_at)}"
    counts = [
        how_many(number, level)
        for level in _COLOURS
        if (number := sum(finding.level == level for finding in report.findings))
    ]
    return "\n\n".join([*blocks, f"{looked}\n{', '.join(counts) or 'all is well'}"])


def _block(finding: Finding) -> str:
    head = click.style(f"{finding.level}: {finding.code}", fg=_COLOURS[finding.level], bold=True)
    return "\n  ".join([head, finding.sentence, *([f"→ {finding.advice}"] if finding.advice else [])])
