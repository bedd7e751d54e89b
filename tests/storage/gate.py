"""Limited jobs driven from a test: limits declared by hand, the admitter's turns, the accounts of permits."""

from collections.abc import Sequence
from typing import Any

from holdfast.domain.job import NewJob, Policy
from holdfast.domain.limit_use import LimitUse
from holdfast.domain.retention import Retention
from holdfast.domain.transition import CompleteJob
from holdfast.storage import jobs, limits, runs
from holdfast.storage.shared_limits import Turn
from support.engine import SCHEMA, Engine

DONE = CompleteJob(None, None)
MAIL = Policy("mail")

# What every lane must hold: the permits of jobs in the ring and in lease, those that jobs at their second
# gate have of their first limit, those that were kept, and those that were given back and not yet counted.
_ACCOUNTS = """
with held (limit_name, key) as (
  select u.name, u.key
    from holdfast.job j
   cross join lateral unnest(j.limits, j.limit_keys) with ordinality as u (name, key, n)
   where exists (select from holdfast.lease l where l.job = j.id)
      or exists (select from holdfast.ready r where r.job = j.id and r.segment < 8)
      or exists (select from holdfast.ready r where r.job = j.id and r.segment = 8 and r.limit_name > u.name)
      or exists (select from holdfast.scheduled s where s.job = j.id and u.name = any(s.holds))
      or exists (select from holdfast.waiting w where w.job = j.id and u.name = any(w.holds))
), owed as (
  select limit_name, key, sum(n) as n
    from (select limit_name, key, 1 as n from held
          union all select limit_name, key, given from holdfast.knock) h
   group by 1, 2 having sum(n) > 0
), counted as (
  select distinct on (limit_name, key) limit_name, key, held
    from holdfast.lane order by limit_name, key, version desc
)
select limit_name, key, coalesce(c.held, 0), coalesce(o.n, 0)
  from counted c full join owed o using (limit_name, key)
 where coalesce(c.held, 0) <> coalesce(o.n, 0)
"""


def declare(
    engine: Engine,
    name: str = "stripe",
    *,
    per_key: int | None = None,
    total: int | None = None,
    hold: str = "run",
    is_direct: bool = True,
) -> None:
    engine.connection.execute(
        "insert into holdfast.limit_rule (name, declared_at, changed_at, per_key, total, hold, may_be_direct,"
        " is_direct, declared) values (%s, now(), now(), %s, %s, %s, true, %s, '{}')",
        (name, per_key, total, hold, is_direct),
    )


def limited(*uses: str | tuple[str, str], policy: Policy = MAIL, **when: Any) -> NewJob:
    """`limited("acme")` is one of the limit stripe; `limited(("a", "k"), ("b", "k"))` passes two."""
    return NewJob(
        policy,
        limits=tuple(LimitUse(*use) if isinstance(use, tuple) else LimitUse("stripe", use) for use in uses),
        **when,
    )


def enqueue(engine: Engine, *new: NewJob) -> list[int]:
    return [row.job for row in engine.run(jobs.enqueue(SCHEMA, new, notify=False, now=engine.now))]


def admit_once(engine: Engine, limit: str = "stripe", **how: Any) -> Turn:
    return engine.hold(limits.admit(SCHEMA, limit, now=engine.now, **how))


def admit(engine: Engine) -> int:
    """As the leader does, until no limit has a knock that can be taken. How many have passed."""
    passed = 0
    for _ in range(50):
        is_more = False
        known = engine.connection.execute("select distinct limit_name from holdfast.knock").fetchall()
        for (name,) in known:
            turn = admit_once(engine, name)
            passed += turn.admitted
            is_more |= turn.is_more
        if not is_more:
            return passed
    raise AssertionError("the admitter never comes to an end")


def settle(
    engine: Engine, worker: int, claimed: Sequence[runs.ClaimRow], transition: Any = DONE, **how: Any
) -> list[runs.Settled]:
    settlements = [runs.Settlement(worker, row.job or 0, row.run, transition) for row in claimed]
    return engine.run(runs.settle(SCHEMA, settlements, retention=Retention(), now=engine.now, **how))


def ids(claimed: Sequence[runs.ClaimRow]) -> list[int | None]:
    return [row.job for row in claimed]


def assert_accounts(engine: Engine) -> None:
    """Every permit that somebody has is counted, and no other."""
    assert engine.connection.execute(_ACCOUNTS).fetchall() == []


def lanes(engine: Engine) -> dict[tuple[str, str], int]:
    rows = engine.connection.execute(
        "select distinct on (limit_name, key) limit_name, key, held from holdfast.lane"
        " order by limit_name, key, version desc"
    ).fetchall()
    return {(name, key): held for name, key, held in rows}
