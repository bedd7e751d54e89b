"""Statements on the caller's own connection, inside his transaction: he begins it, he commits it.

Nothing here commits, rolls back or changes a setting of the connection, and errors of his driver reach
him as they are, since the transaction, the driver and the retry are his. One excepted: a database without
our tables, since only we can say what to do about it.
"""

from holdfast.postgres.borrowed.run import run_on, run_on_blocking
from holdfast.postgres.borrowed.savepoint import kept_whole, kept_whole_blocking

__all__ = ["kept_whole", "kept_whole_blocking", "run_on", "run_on_blocking"]
