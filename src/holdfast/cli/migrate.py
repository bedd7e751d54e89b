"""`holdfast migrate`: the one command that changes tables."""

import json
from collections.abc import Sequence
from datetime import timedelta
from itertools import count

import click

from holdfast.cli.options import database, dsn_option, length, schema_option
from holdfast.cli.progress import progress
from holdfast.domain.duration import compact
from holdfast.errors import SchemaError
from holdfast.postgres.migrations import runner
from holdfast.postgres.migrations.migration import Migration
from holdfast.postgres.migrations.script import script
from holdfast.postgres.migrations.standing import Standing, look
from holdfast.postgres.schema import Schema


@click.command()
@dsn_option
@schema_option
@click.option(
    "--check", is_flag=True, help="Change nothing; fail unless this release works with the database."
)
@click.option(
    "--sql", is_flag=True, help="Change nothing; print the pending SQL, or all of it without a DSN."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.option(
    "--lock-timeout",
    callback=length,
    default=compact(runner.LOCK_TIMEOUT),
    metavar="DURATION",
    show_default=True,
    help="How long to wait for a lock before others may proceed and it tries again.",
)
@click.pass_obj
def migrate(
    migrations: Sequence[Migration],
    *,
    dsn: str | None,
    schema: Schema,
    check: bool,
    sql: bool,
    as_json: bool,
    lock_timeout: timedelta,
) -> None:
    """Create Holdfast's tables, or bring them up to this release.

    Safe to run from many processes at once; all pending migrations are applied, or none.
    """
    if sql and (check or as_json):
        raise click.UsageError("--sql prints only SQL: do not combine it with --check or --json")
    if sql:
        click.echo(script(_stands(dsn, schema, migrations), lock_timeout=lock_timeout), nl=False)
    elif check:
        _check(_stands_at(dsn, schema, migrations), as_json=as_json)
    else:
        _migrate(dsn, schema, migrations, lock_timeout, as_json=as_json)


def _stands(dsn: str | None, schema: Schema, migrations: Sequence[Migration]) -> Standing:
    return Standing(schema, tuple(migrations)) if dsn is None else _stands_at(dsn, schema, migrations)


def _stands_at(dsn: str | None, schema: Schema, migrations: Sequence[Migration]) -> Standing:
    with database(dsn) as place, runner.own_connection(place) as conn:
        standing = look(conn, schema, migrations)
    _warn_of_altered(standing)
    return standing


def _check(standing: Standing, *, as_json: bool) -> None:
    try:
        standing.judge()
        problem = None
    except SchemaError as error:
        problem = error
    if as_json:
        _print_json(
            schema=standing.schema.name,
            version=standing.found.version,
            min_code=standing.found.min_code,
            known=len(standing.known),
            pending=[str(each) for each in standing.pending],
            problem=problem and str(problem),
        )
    if problem:
        raise problem
    if not as_json:
        click.echo(_summary(standing))


def _migrate(
    dsn: str | None,
    schema: Schema,
    migrations: Sequence[Migration],
    lock_timeout: timedelta,
    *,
    as_json: bool,
) -> None:
    with database(dsn) as place, runner.own_connection(place) as conn:
        pending = len(look(conn, schema, migrations).pending)
        begun = count()
        with progress("migrate", total=pending, unit="migrations") as bar:

            def tell(migration: Migration) -> None:
                if not as_json:
                    bar.say(f"applying {migration}")
                bar.at(next(begun), what=f"applying {migration}")

            done = runner.migrate(conn, schema, migrations, lock_timeout=lock_timeout, on_apply=tell)
        standing = look(conn, schema, migrations)
    _warn_of_altered(standing)
    if as_json:
        _print_json(
            schema=schema.name,
            from_version=done.from_version,
            to_version=done.to_version,
            min_code=done.after.min_code,
            applied=[str(each) for each in done.applied],
        )
    elif done.applied:
        click.echo(f'schema "{schema.name}" is at {done.to_version}, it was at {done.from_version}')
    else:
        click.echo(f"{_summary(standing)}: nothing to do")


def _summary(standing: Standing) -> str:
    found, known = standing.found, len(standing.known)
    is_newer = (
        f", newer than this release knows ({known}), and works with it" if found.version > known else ""
    )
    return f'schema "{standing.schema.name}" is at {found.version}{is_newer}'


def _warn_of_altered(standing: Standing) -> None:
    for each in standing.altered:
        click.echo(
            f"holdfast: warning: {each} was applied with a different text than this release has: "
            "the tables may differ from what the code expects",
            err=True,
        )


def _print_json(**facts: object) -> None:
    click.echo(json.dumps(facts))
