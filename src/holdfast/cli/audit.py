"""`holdfast audit`: who did what, and why."""

import click

from holdfast.app import App
from holdfast.cli.formats import age
from holdfast.cli.listing import Listed, after_option, listing
from holdfast.cli.state_look import Cell
from holdfast.cli.table import Columns
from holdfast.insights.audit import AuditEntry, AuditPage

COLUMNS = Columns(
    (Cell("WHEN (UTC)", on_terminal="WHEN"), "BY", "ACTION", "TARGET", "RESULT", "REASON"),
    flexible=("BY", "ACTION", "TARGET", "RESULT", "REASON"),
)


class _ListsByItself(click.Group):
    """`holdfast audit --by ann` is `holdfast audit list --by ann`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if is_named else ["list", *args])


@click.group(cls=_ListsByItself)
def audit() -> None:
    """Show what operators did. Without a command it lists, with the options of `list`."""


@audit.command("list")
@click.option("--by", metavar="NAME", help="Only what this operator did.")
@click.option("--action", metavar="ACTION", help="Only this action, such as cancel or move.")
@after_option
@listing()
def list_(app: App, *, by: str | None, action: str | None, limit: int, after: str | None) -> Listed:
    """List what operators did to jobs, kinds and queues, newest first: who, what, to which, and why."""
    page = app.audit.list_sync(by=by, action=action, after=after, limit=limit)
    is_narrowed = by is not None or action is not None or after is not None
    return Listed(
        COLUMNS,
        [_row(entry, page) for entry in page.entries],
        items=page.entries,
        empty="no entry matches" if is_narrowed else "nobody has done anything yet",
        whole={"entries": page.entries, "next": page.next, "searched": page.searched},
        note=_note(page),
        next=page.next,
    )


def _note(page: AuditPage) -> str | None:
    if page.searched is None:
        return None
    return f"{len(page.entries):,} found among {page.searched:,} entries: there may be older ones"


def _row(entry: AuditEntry, page: AuditPage) -> tuple[str, ...]:
    return (
        age(entry.at, page.now),
        entry.by,
        entry.action,
        entry.target,
        ", ".join(f"{count:,} {answer}" for answer, count in sorted(entry.counts.items())),
        entry.reason or "",
    )
