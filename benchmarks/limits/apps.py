"""One job that does nothing, behind one limit or none: `holdfast worker -A benchmarks.limits.apps:lock`. An
app for each, so that a worker declares no other limit.
"""

from typing import Any

from benchmarks.limits.gates import KIND, LIMIT, PERMITS
from benchmarks.limits.places import PROCESSES, SLOTS
from benchmarks.ways.counted import tally
from holdfast import App


async def _work(account: int) -> None:  # noqa: ARG001  # a no-op
    tally.add()


def _behind(*, is_keyed: bool, **settings: Any) -> App:
    app = App()
    limit = app.limit(LIMIT, **settings)
    app.job(name=KIND, limit=limit.by("account") if is_keyed else limit)(_work)
    return app


unlimited = App()
unlimited.job(name=KIND)(_work)

unkeyed = _behind(is_keyed=False, total=PERMITS)
lock = _behind(is_keyed=True, per_key=1)
turns = _behind(is_keyed=True, turns=True)
total_and_key = _behind(is_keyed=True, total=PERMITS, per_key=1)
fleet = _behind(is_keyed=False, total=PROCESSES * SLOTS)
