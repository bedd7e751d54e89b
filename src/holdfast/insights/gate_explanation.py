"""Why a job waits at the gate of a limit: who holds the permits, how many are ahead, and how long it may
take.
"""

from datetime import timedelta

from holdfast.domain.duration import compact
from holdfast.insights.job_records import Explanation, JobSummary
from holdfast.insights.limit_records import LimitKeyStatus, LimitStatus, key_status, limit_status
from holdfast.postgres.conversation import Conversation, ask
from holdfast.postgres.schema import Schema
from holdfast.storage.limits_shown import GATE_CAP, Ahead, ahead_at_gate, limit_holders, limit_keys, limits

_NAMED = 3
_SECOND = timedelta(seconds=1)


def explain_gate(schema: Schema, job: JobSummary, plainly: Explanation) -> Conversation[Explanation]:
    """`plainly`: what is told if nothing more is known of its limit any more."""
    name, key = job.limit or "", job.limit_key or ""
    rows = yield from ask(limits(schema, name=name, limit=1))
    if not rows:
        return plainly
    limit = limit_status(rows[0])
    lanes = yield from ask(limit_keys(schema, name, key=key))
    lane = key_status(lanes[0], limit) if lanes else None
    [place] = yield from ask(
        ahead_at_gate(schema, job=job.id, kind=job.kind, priority=job.priority, limit=name, key=key)
    )
    where = f'limit "{name}", key "{key}"' if key else f'limit "{name}"'
    stopped = _stopped(limit, lane)
    if stopped is not None:
        opening = f"holdfast limits open {name}{f' --key {key}' if lane is not None and key else ''}"
        return Explanation(
            job.id, "limit_closed", f"It waits for {where}: {stopped}.", f"Open it with: {opening}"
        )
    whose = None if _is_full_by_total(limit, lane) else key or None
    holders = yield from ask(limit_holders(schema, name, key=whose, most=_NAMED + 1))
    if _is_full_by_total(limit, lane):
        return _explain_total(job.id, where, limit, [row.job for row in holders])
    held = _held(limit, lane, [row.job for row in holders])
    line = "it is next in line" if place.ahead == 0 else f"{_number(place.ahead)} ahead of it"
    return Explanation(
        job.id,
        "limit_reached",
        f"It waits for {where}: {held}; {line}{_about(limit, lane, place)}.",
        f"See who holds permits and who waits with: holdfast limits show {name}",
    )


def _is_full_by_total(limit: LimitStatus, lane: LimitKeyStatus | None) -> bool:
    """Whether it is not its own key that is full, but the limit over all keys."""
    is_key_full = lane is not None and lane.key and lane.allowed is not None and lane.held >= lane.allowed
    return limit.total == 0 or (limit.total is not None and limit.held >= limit.total and not is_key_full)


def _explain_total(job: int, where: str, limit: LimitStatus, holders: list[int]) -> Explanation:
    if limit.total == 0:
        return Explanation(
            job,
            "limit_closed",
            f"It waits for {where}, which an operator has set to a total of 0.",
            f"Set another one, or go back to what code says with: holdfast limits reset {limit.name}",
        )
    return Explanation(
        job,
        "limit_reached",
        f"It waits for {where}: {limit.held:,} of {limit.total:,} held{_by(holders, limit.held)}, and "
        f"{limit.waiting_text} {'job waits' if limit.waiting == 1 else 'jobs wait'}.",
        f"See who holds permits and who waits with: holdfast limits show {limit.name}",
    )


def _stopped(limit: LimitStatus, lane: LimitKeyStatus | None) -> str | None:
    for part in (limit, lane):
        if part is not None and part.is_closed:
            until = "" if part.closed_until is None else f" until {part.closed_until:%Y-%m-%d %H:%M:%S} UTC"
            return f"closed{until}{'' if part.closed_reason is None else f' ({part.closed_reason})'}"
    if limit.open_for is not None:
        return f"stopped by {limit.failures} failures in a row for another {_rounded(limit.open_for)}"
    if lane is not None and lane.stopped_for is not None:
        return f"stopped by {lane.failures} failures in a row for another {_rounded(lane.stopped_for)}"
    return None


def _held(limit: LimitStatus, lane: LimitKeyStatus | None, holders: list[int]) -> str:
    held, allowed = (0, limit.per_key) if lane is None else (lane.held, lane.allowed)
    by = _by(holders, held)
    if allowed is not None and held >= allowed:
        return f"{held:,} of {allowed:,} held{by}"
    rate = limit.rate or limit.rate_per_key
    if rate is not None:
        return f"its rate is {rate}"
    return f"{held:,} held{by}, and its turn comes"


def _by(holders: list[int], held: int) -> str:
    named = ", ".join(f"#{job}" for job in holders[:_NAMED])
    more = ", …" if len(holders) > _NAMED or held > len(holders) else ""
    return f" by {named}{more}" if named else ""


def _about(limit: LimitStatus, lane: LimitKeyStatus | None, place: Ahead) -> str:
    """A guess: what is ahead, at the pace of the last hour; or when its rate allows the next start."""
    if lane is not None and lane.free_in is not None:
        return f"; the next start is in {_rounded(lane.free_in)}"
    allowed = lane.allowed if lane is not None and lane.allowed is not None else limit.total
    if place.usual is None or not allowed or place.ahead >= GATE_CAP:
        return ""
    return f"; about {_rounded(timedelta(seconds=(place.ahead + 1) * place.usual / allowed))}"


def _number(ahead: int) -> str:
    return "1 job is" if ahead == 1 else f"{ahead:,}{'+' if ahead >= GATE_CAP else ''} jobs are"


def _rounded(span: timedelta) -> str:
    return compact(max(span // _SECOND * _SECOND, _SECOND))
