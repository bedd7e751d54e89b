"""`holdfast version`: what to write into a bug report."""

import json
import platform
from collections.abc import Sequence

import click
import psycopg

from holdfast import __version__
from holdfast.postgres.migrations.migration import Migration


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@click.pass_obj
def version(migrations: Sequence[Migration], as_json: bool) -> None:
    """Print the versions of Holdfast, of the schema that it knows, and of what it runs on."""
    facts = {
        "holdfast": __version__,
        "schema": len(migrations),
        "python": platform.python_version(),
        "psycopg": psycopg.__version__,
        "libpq": psycopg.pq.version_pretty(psycopg.pq.version()),
    }
    if as_json:
        click.echo(json.dumps(facts))
    else:
        click.echo("\n".join(f"{name} {value}" for name, value in facts.items()))
