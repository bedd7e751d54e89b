"""A new job as JSON text, to be enqueued later by somebody else: by the leader, behind a group."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs

from holdfast.domain.backoff import from_json, to_json
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.limit_use import LimitUse


def job_text(new: NewJob) -> str:
    """All of it: what is left out here is lost. A test compares it with the fields of NewJob and Policy."""
    policy = new.policy
    return json.dumps(
        {
            "policy": {
                "kind": policy.kind,
                "queue": policy.queue,
                "priority": policy.priority,
                "max_attempts": policy.max_attempts,
                "backoff": to_json(policy.backoff),
                "timeout": _seconds(policy.timeout),
                "keep": _seconds(policy.keep),
                "on_lost": policy.on_lost,
                "tags": list(policy.tags),
                "origin": policy.origin,
            },
            "args": new.args,
            "delay": _seconds(new.delay),
            "run_at": _moment(new.run_at),
            "deadline_at": _moment(new.deadline_at),
            "deadline_in": _seconds(new.deadline_in),
            "unique_key": new.unique_key,
            "limits": [list(use) for use in new.limits],
            "debounce": _seconds(new.debounce),
            "max_wait": _seconds(new.max_wait),
            "unique_for": _seconds(new.unique_for),
        },
        ensure_ascii=False,
    )


def job_of(text: str) -> NewJob:
    stored: dict[str, Any] = json.loads(text)
    policy = stored["policy"]
    return NewJob(
        Policy(
            kind=policy["kind"],
            queue=policy["queue"],
            priority=policy["priority"],
            max_attempts=policy["max_attempts"],
            backoff=from_json(policy["backoff"]),
            timeout=_length(policy["timeout"]),
            keep=_length(policy["keep"]),
            on_lost=policy["on_lost"],
            tags=tuple(policy["tags"]),
            origin=policy["origin"],
        ),
        args=stored["args"],
        delay=_length(stored["delay"]),
        run_at=_time(stored["run_at"]),
        deadline_at=_time(stored["deadline_at"]),
        deadline_in=_length(stored["deadline_in"]),
        unique_key=stored["unique_key"],
        limits=tuple(LimitUse(*use) for use in stored["limits"]),
        debounce=_length(stored["debounce"]),
        max_wait=_length(stored["max_wait"]),
        unique_for=_length(stored["unique_for"]),
    )


def with_origin(new: NewJob, origin: str | None) -> NewJob:
    return structs.replace(new, policy=replace(new.policy, origin=origin))


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()


def _length(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def _moment(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
