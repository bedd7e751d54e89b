"""Whether a session is one for reading only, as after a failover: known from what the server reports by
itself, so without a round trip. What a handler's own statement met on a connection of ours is told to the
handler only.
"""

from holdfast.postgres.pooled_connection import Pooled

# Postgres reports both at the beginning of a session, and whenever they change.
_REPORTED = ("default_transaction_read_only", "in_hot_standby")


def is_read_only(connection: Pooled) -> bool:
    """False for one that is closed: it has been given up already."""
    if connection.closed:
        return False
    return any(connection.info.parameter_status(name) == "on" for name in _REPORTED)
