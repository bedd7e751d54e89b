"""Warns when a handler writes a job or an event outside the transaction block that it is in."""

from collections.abc import Container

from holdfast.errors import OutsideTransaction
from holdfast.producer.call_site_warnings import warn_at_call_site
from holdfast.worker.current_run import current_run


def warn_of_own_transaction(kinds: Container[str]) -> None:
    """For a write without `conn` inside a committing block. Only for a job of one of these `kinds`, which are
    an app's own: another app may have another database.
    """
    claimed = current_run.get(None)
    if claimed is None or claimed.row.kind not in kinds:
        return
    warn_at_call_site(
        "written without conn inside a transaction() block, and so committed by itself, whether the block "
        "commits or not: pass conn=…, open the block with app.using(conn=…) around what it writes, or pass "
        "conn=OWN_TRANSACTION if you mean it",
        OutsideTransaction,
        otherwise=claimed.kind.function,
    )
