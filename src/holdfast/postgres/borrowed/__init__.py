"""Statements on the caller's own connection, inside a transaction that the caller begins and commits.

Nothing here commits, rolls back or changes a setting of the connection. Errors of the driver reach the
caller as they are, since the transaction, the driver and the retry are the caller's. One exception: a
database without our tables, since only we can say what to do about it.
"""

from holdfast.postgres.borrowed.run import run_on, run_on_blocking
from holdfast.postgres.borrowed.savepoint import kept_whole, kept_whole_blocking

__all__ = ["kept_whole", "kept_whole_blocking", "run_on", "run_on_blocking"]
