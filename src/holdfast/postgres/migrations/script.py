"""The same migration as text, for an administrator to run: one transaction, lock and records included."""

from datetime import timedelta

from holdfast.postgres.migrations import steps
from holdfast.postgres.migrations.runner import LOCK_TIMEOUT
from holdfast.postgres.migrations.standing import Standing


def script(standing: Standing, *, lock_timeout: timedelta = LOCK_TIMEOUT) -> str:
    """Plain SQL that takes a database from `standing` to the last known migration, and from nowhere else.

    `Standing(schema, migrations)` is a database that has nothing yet.
    """
    standing.check_base()
    schema, start, pending = standing.schema, standing.found.version, standing.pending
    if not pending:
        return f'-- Nothing to do: schema "{schema.name}" is at {start}.\n'
    parts = [
        f'-- Holdfast: schema "{schema.name}" from {start} to {pending[-1].version}, or not at all.',
        "-- Run it with: psql -X -v ON_ERROR_STOP=1 -f THIS_FILE",
        "begin;",
        steps.settings(lock_timeout),
        steps.lock(schema),
        steps.bootstrap(schema),
        steps.guard(schema, start),
    ]
    for migration in pending:
        parts += [f"-- {migration}.sql\n{steps.change(schema, migration)}", steps.record(schema, migration)]
    parts.append("commit;")
    return "\n\n".join(part.strip() for part in parts) + "\n"
