"""What a run goes to wait for, in words for its log line: `for packed:42`, `for job 7`, `until 12:30`."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from holdfast.domain.failure import Failure
from holdfast.domain.flow_path import Path
from holdfast.storage.flows import Wait

_MOST = 5


def shown(waits: Sequence[Wait], path: Path, children: Mapping[str, Sequence[int]], now: datetime) -> str:
    words = [_one(wait, path, children.get(wait.name, ()), now) for wait in waits[:_MOST]]
    return "; ".join(words) + (f"; and {len(waits) - _MOST} more" if len(waits) > _MOST else "")


def failure_among(waits: Sequence[Wait]) -> Failure | None:
    """Of the first step that is to be tried again."""
    for wait in waits:
        if wait.kind == "retry" and wait.error:
            error = json.loads(wait.error)
            return Failure(error.get("message", ""), error.get("code", "handler_error"), error.get("type"))
    return None


def _one(wait: Wait, path: Path, children: Sequence[int], now: datetime) -> str:
    match wait.kind:
        case "event":
            return f"for {wait.key}"
        case "call":
            return f"for {_jobs(children) or wait.name}"
        case "retry":
            return f"until {moment(now, wait.delay)} (retry of {wait.name})"
        case _:
            known = path.recorded(wait.name)
            left = wait.delay if known is None or known.left_to_wait is None else known.left_to_wait
            return f"until {moment(now, left)} ({wait.name})"


def _jobs(ids: Sequence[int]) -> str:
    if len(ids) <= 1:
        return "".join(f"job {job}" for job in ids)
    more = f" and {len(ids) - _MOST} more" if len(ids) > _MOST else ""
    return f"jobs {', '.join(map(str, ids[:_MOST]))}{more}"


def moment(now: datetime, left: timedelta | None) -> str:
    return (now + (left or timedelta())).astimezone(UTC).isoformat(timespec="seconds")
