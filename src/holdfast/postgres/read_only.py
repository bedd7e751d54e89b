"""Whether a session is read-only, as after a failover. The server reports it unasked, so this needs no round
trip. When a handler's own statement meets a read-only session, only the handler sees the error.
"""

from holdfast.postgres.pooled_connection import Pooled

# Postgres reports both at the beginning of a session, and whenever they change.
_REPORTED = ("default_transaction_read_only", "in_hot_standby")


def is_read_only(connection: Pooled) -> bool:
    """False for one that is closed: it has been given up already."""
    if connection.closed:
        return False
    return any(connection.info.parameter_status(name) == "on" for name in _REPORTED)
