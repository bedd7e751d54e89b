"""The options that the commands about schedules share."""

from zoneinfo import ZoneInfo

import click

from holdfast.domain.time_zones import zone_named
from holdfast.errors import InvalidInput

name_argument = click.argument("name")
scope_option = click.option("--scope", metavar="SCOPE", help="Only this scope.")


def read_zone(ctx: click.Context, param: click.Parameter, value: str | None) -> ZoneInfo | None:
    try:
        return None if value is None else zone_named(value)
    except InvalidInput as error:
        raise click.BadParameter(str(error), ctx, param) from None


tz_option = click.option(
    "--tz",
    callback=read_zone,
    metavar="ZONE",
    help="Show times in this zone, such as Europe/Oslo; without it, in UTC.",
)
