"""Why a result has not come in time: what the job does, or what it waits for, in words."""

import json
from datetime import UTC

from holdfast.domain.did_you_mean import did_you_mean
from holdfast.errors import ResultTimeout
from holdfast.storage.job_lookup import Found
from holdfast.storage.unserved import Coverage

FOR_A_WORKER = frozenset({"ready", "scheduled"})
"""The states in which a job waits for a worker."""


def result_timeout(found: Found, waited: str, service: Coverage | None) -> ResultTimeout:
    """`service` is known of a job that waits for a worker."""
    problem = None if service is None else _problem(found, service)
    outlook = f"but {problem}" if problem else "it goes on, ask again later"
    return ResultTimeout(
        job=found.job,
        waited=waited,
        state=found.state,
        situation=f"{_standing(found)}{_last_error(found)}{',' if problem else ';'} {outlook}",
        is_queue_served=None if service is None else service.is_queue_served,
        is_kind_known=None if service is None else service.is_kind_known,
    )


def _standing(found: Found) -> str:
    if found.state == "scheduled" and found.run_at is not None:
        return f"it is scheduled for {found.run_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if found.state == "running":
        return f"it is running, attempt {found.attempt} of {found.max_attempts}"
    if found.state == "waiting":
        return f'it is a flow that is waiting ("holdfast flows show {found.job}" names what for)'
    return f"it is {found.state}"


def _last_error(found: Found) -> str:
    if not found.error:
        return ""
    error = json.loads(found.error)
    words = ": ".join(str(error[name]) for name in ("type", "message") if error.get(name))
    return f", its last error is {words or error.get('code')}"


def _problem(found: Found, service: Coverage) -> str | None:  # noqa: PLR0911  # a return for each
    if service.is_paused:
        return f'its queue "{found.queue}" is paused: resume it with app.queues.resume("{found.queue}")'
    if service.is_served:
        return None
    if not service.is_any_worker_alive:
        return "no worker is alive: start one"
    if service.is_quiet:
        return "every worker that could run it is quiet or stopping: see app.workers.list()"
    if not service.is_queue_served:
        return f'no live worker serves its queue "{found.queue}"{did_you_mean(found.queue, service.queues)}'
    if not service.is_kind_known:
        return f'no live worker knows its kind "{found.kind}"{did_you_mean(found.kind, service.kinds)}'
    return f'no live worker that serves its queue "{found.queue}" knows its kind "{found.kind}"'
