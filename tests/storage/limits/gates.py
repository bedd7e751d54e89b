"""A limit in a database, driven from a test: jobs that wait at its gate, and turns of its admitter."""

from collections.abc import Mapping
from datetime import timedelta

from holdfast.storage.shared_limits import Turn, admit_in_turns, look_at_limit
from support.engine import SCHEMA, Engine


class Gate:
    """One limit. Its jobs are of kind mail in queue default."""

    def __init__(self, engine: Engine, name: str = "stripe") -> None:
        self.engine = engine
        self.name = name

    def declare(self, **settings: object) -> None:
        columns = {
            "declared_at": self.engine.now,
            "changed_at": self.engine.now,
            "declared": "{}",
            **settings,
        }
        names = ", ".join(["name", *columns])
        places = ", ".join(["%s"] * (len(columns) + 1))
        changes = ", ".join(f"{column} = excluded.{column}" for column in columns)
        self.engine.connection.execute(
            f"insert into holdfast.limit_rule ({names}) values ({places})"
            f" on conflict (name) do update set {changes}, is_direct = false, removed_at = null".encode(),
            [self.name, *columns.values()],
        )

    def set_key(self, key: str, **settings: object) -> None:
        names = ", ".join(["limit_name", "key", "changed_at", *settings])
        places = ", ".join(["%s"] * (len(settings) + 3))
        self.engine.connection.execute(
            f"insert into holdfast.limit_key ({names}) values ({places})".encode(),
            [self.name, key, self.engine.now, *settings.values()],
        )

    def arrive(
        self, keys: list[str], *, priority: int = 5, cost: int | None = None, then: str | None = None
    ) -> list[int]:
        """Jobs that come to the gate, one for each key."""
        ids = []
        costs = None if cost is None else [cost]
        for key in keys:
            [(job,)] = self.engine.connection.execute(
                "insert into holdfast.job (created_at, priority, max_attempts, kind, queue, args,"
                " limits, limit_keys, limit_costs)"
                " values (coalesce(%s, now()), %s, 20, 'mail', 'default', '{}', %s, %s, %s) returning id",
                [
                    self.engine.now,
                    priority,
                    [self.name, *([then] if then else [])],
                    [key, *([key] if then else [])],
                    costs,
                ],
            ).fetchall()
            self.engine.connection.execute(
                "insert into holdfast.ready"
                " (job, ready_at, attempt, priority, segment, queue, kind,"
                " limit_name, limit_key, next_limit, next_key)"
                " values (%s, coalesce(%s, now()), 0, %s, 8, 'default', 'mail', %s, %s, %s, %s)",
                [job, self.engine.now, priority, self.name, key, then, key if then else None],
            )
            ids.append(job)
        for key in dict.fromkeys(keys):
            self.knock(
                key, priority=priority, job=min(job for job, k in zip(ids, keys, strict=True) if k == key)
            )
        return ids

    def knock(self, key: str, *, given: int = 0, **more: object) -> None:
        names = ", ".join(["limit_name", "key", "given", *more])
        places = ", ".join(["%s"] * (len(more) + 3))
        self.engine.connection.execute(
            f"insert into holdfast.knock ({names}) values ({places})".encode(),
            [self.name, key, given, *more.values()],
        )

    def turn(self) -> Turn:
        found = self.engine.one(look_at_limit(SCHEMA, self.name, now=self.engine.now))
        return self.engine.hold(admit_in_turns(SCHEMA, self.name, found, now=self.engine.now))

    def settle_down(self) -> int:
        """Turns until nothing changes, or others take over; answers how many were admitted."""
        admitted = 0
        while True:
            turn = self.turn()
            admitted += turn.admitted
            if turn.is_direct or not turn.is_more:
                return admitted

    def end(self, job: int, key: str, **verdict: object) -> None:
        """A run is over: its lease goes, its permit comes back."""
        self.engine.connection.execute("delete from holdfast.lease where job = %s", [job])
        self.knock(key, given=1, **verdict)

    def held(self) -> Mapping[str, int]:
        rows = self.engine.connection.execute(
            "select key, held from holdfast.lane where limit_name = %s and held <> 0", [self.name]
        ).fetchall()
        return dict(rows)

    def total(self) -> int:
        [(held,)] = self.engine.connection.execute(
            "select held from holdfast.limit_state where limit_name = %s", [self.name]
        ).fetchall()
        return int(held)

    def waiting(self) -> int:
        [(count,)] = self.engine.connection.execute("select count(*) from holdfast.ready_gated").fetchall()
        return int(count)

    def later(self, seconds: float) -> None:
        self.engine.pass_time(timedelta(seconds=seconds))
