"""What the database says happened, read on the test's own connection."""

import json
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg

from support.logs import whole_lines
from support.waiting import until

TABLES = """
create table effect (job bigint, run bigint, note text, at timestamptz default clock_timestamp())
"""

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """What a handler wrote into the diary, and when (monotonic seconds, the same for all processes)."""

    what: str
    job: int
    run: int
    attempt: int
    pid: int
    at: float


class Books:
    """Connected past every fault; connects again after a restart of the server."""

    def __init__(self, dsn: str, diary: Path) -> None:
        self._dsn = dsn
        self.diary = diary
        (diary / "lines").touch()
        self._connection: psycopg.Connection[Any] | None = None
        self.run(TABLES)

    def run(self, text: str, *params: object) -> list[Row]:
        try:
            return self._ask(text, params)
        except psycopg.OperationalError:
            self.close()  # the server was restarted
            return self._ask(text, params)

    def _ask(self, text: str, params: Row) -> list[Row]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._dsn, autocommit=True)
        cursor = self._connection.execute(text.encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    def value(self, text: str, *params: object) -> Any:
        [(value,)] = self.run(text, *params)
        return value

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def open_gate(self, name: str) -> None:
        (self.diary / f"gate-{name}").touch()

    def lines(self, what: str = "run", *, job: int | None = None, pid: int | None = None) -> list[Line]:
        """What handlers wrote, in order."""
        written = (Line(**json.loads(line)) for line in whole_lines(self.diary / "lines").splitlines())
        return [
            line
            for line in written
            if line.what == what and job in (None, line.job) and pid in (None, line.pid)
        ]

    def executions(self, job: int | None = None, *, pid: int | None = None) -> int:
        return len(self.lines(job=job, pid=pid))

    def workers(self, pid: int) -> list[int]:
        """Live identities of a process, oldest first."""
        rows = self.run("select id from holdfast.worker where pid = %s and lost_at is null order by id", pid)
        return [row[0] for row in rows]

    def leader(self) -> int | None:
        rows = self.run("select worker from holdfast.leader where expires_at > clock_timestamp()")
        return rows[0][0] if rows else None

    def leases(self, worker: int | None = None) -> int:
        return int(
            self.value("select count(*) from holdfast.lease where worker = coalesce(%s, worker)", worker)
        )

    def effects(self, job: int | None = None) -> int:
        return int(self.value("select count(*) from effect where job = coalesce(%s, job)", job))

    def finished(self) -> int:
        """How many jobs have ended, in any final state."""
        return int(self.value("select count(distinct job) from holdfast.ledger where is_final"))

    def state(self, job: int) -> str:
        return str(self.value("select state from holdfast.jobs where id = %s", job))

    def outcomes(self, job: int) -> list[str]:
        """What became of each run of a job, in order."""
        rows = self.run("select outcome::text from holdfast.ledger where job = %s order by run", job)
        return [row[0] for row in rows]

    async def all_finished(self, jobs: int, *, within: float = 60) -> float:
        """The seconds that it took."""
        began = monotonic()
        await until(lambda: self.finished() >= jobs, f"{jobs} jobs are finished", within=within)
        return monotonic() - began

    def assert_balanced(self, jobs: int) -> None:
        """Every job succeeded, once, and nothing of it is left where jobs wait or run."""
        left = {
            name: self.value(f"select count(*) from holdfast.{name}")
            for name in ("ready", "scheduled", "lease", "dead")
        }
        assert not any(left.values()), left
        ends = self.run("select outcome::text, count(*) from holdfast.ledger where is_final group by 1")
        assert ends == [("succeeded", jobs)]
        assert self.value("select count(*) from holdfast.job") == jobs
        assert not self.run("select job from holdfast.ledger where is_final group by 1 having count(*) > 1")

    def assert_effects_once(self, jobs: int) -> None:
        """Each effect is there once, of the run that the ledger calls the successful one."""
        assert not self.run("select job, count(*) from effect group by 1 having count(*) > 1")
        assert self.effects() == jobs
        strays = self.run(
            "select e.job, e.run from effect e left join holdfast.ledger l"
            " on l.job = e.job and l.run = e.run and l.outcome = 'succeeded' where l.job is null"
        )
        assert not strays
