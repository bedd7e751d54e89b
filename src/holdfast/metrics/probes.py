"""What probes answer: whether a process works, and whether it takes jobs. Decided here, from facts.

Neither looks at the database: when it is away, starting every process again helps nobody.
"""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from holdfast.domain.duration import compact
from holdfast.worker.vitals import Vitals

_KEEPER_SECONDS = 10.0


class ProcessHealth(msgspec.Struct, frozen=True):
    """Of one process: what is wrong with it, and why it takes no jobs; empty if all is well."""

    pid: int
    wrong: str = ""
    unready: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """The answer of a probe. `reasons` has one for each process that is to blame."""

    is_ok: bool
    reasons: tuple[str, ...] = ()


def what_is_wrong(vitals: Vitals | None, *, loop_beat_at: float, now: float, bound: float) -> str:
    """The event loop and the lease keeper's thread must have come round within `bound` seconds. The thread
    may wait for the database in between, for some seconds, without being stuck.
    """
    wrong = []
    if now - loop_beat_at > bound:
        wrong.append(f"the event loop is blocked for {_length(now - loop_beat_at)}")
    came_round_at = None if vitals is None else vitals.keeper_came_round_at
    if came_round_at is not None and now - came_round_at > max(bound, _KEEPER_SECONDS):
        wrong.append(f"the lease keeper is stuck for {_length(now - came_round_at)}")
    return " and ".join(wrong)


def why_unready(vitals: Vitals | None) -> str:
    if vitals is None:
        return "starting"
    if vitals.activity == "stopping":
        return "draining: it claims no more jobs"
    if vitals.worker is None:
        return "not registered in the database"
    return "quiet, as an operator asked" if vitals.activity == "quiet" else ""


def health(processes: Sequence[ProcessHealth]) -> Verdict:
    """One process that does not work is enough to say so."""
    reasons = tuple(f"process {each.pid}: {each.wrong}" for each in processes if each.wrong)
    return Verdict(not reasons, reasons)


def readiness(processes: Sequence[ProcessHealth]) -> Verdict:
    """One process that takes jobs is enough."""
    if not processes:
        return Verdict(is_ok=False, reasons=("no worker process is up",))
    reasons = tuple(f"process {each.pid}: {each.unready}" for each in processes if each.unready)
    is_ok = len(reasons) < len(processes)
    return Verdict(is_ok, () if is_ok else reasons)


def _length(seconds: float) -> str:
    return compact(timedelta(seconds=round(seconds)))
