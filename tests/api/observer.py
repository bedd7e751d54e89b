"""What a psql session beside the App sees of its jobs, and the notifications that it hears."""

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from support.waiting import block_until

_LONG = 30.0
_SESSIONS = """
select application_name from pg_stat_activity
 where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
"""


@dataclass
class Observer:
    connection: psycopg.Connection[Any]

    def count(self) -> int:
        return int(self.value("select count(*) from holdfast.jobs"))

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs in the order of their ids, as the public view shows them."""
        with self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute("select * from holdfast.jobs order by id").fetchall()

    def job(self, job: int) -> dict[str, Any]:
        [found] = [row for row in self.jobs() if row["id"] == job]
        return found

    def value(self, query: str, *params: object) -> Any:
        row = self.connection.execute(query, params).fetchone()
        assert row is not None
        return row[0]

    def sessions(self) -> list[str]:
        """The other sessions on this database, by application_name."""
        return [name for (name,) in self.connection.execute(_SESSIONS)]

    def until_alone(self) -> None:
        """Wait until no other session is left; a server notices a closed connection a little later."""
        block_until(lambda: not self.sessions(), lambda: f"left open: {self.sessions()}", within=_LONG)

    def listen(self, *channels: str) -> None:
        for channel in channels:
            self.connection.execute(f'listen "{channel}"')

    def hear(self) -> tuple[str, str]:
        """The next notification, waited for."""
        for heard in self.connection.notifies(timeout=_LONG, stop_after=1):
            return heard.channel, heard.payload
        raise AssertionError("nothing was heard")

    def heard_nothing(self) -> bool:
        """Whether no notification has arrived for what was committed until now."""
        self.connection.execute("select")
        return not list(self.connection.notifies(timeout=0))
