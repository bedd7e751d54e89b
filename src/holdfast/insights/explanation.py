"""Why a job is not running, decided from what a list shows of it and from the circumstances around it: one
reason, one sentence, and what to do. The first reason that holds a job back is told, not all of them.
"""

from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import assert_never

from holdfast.domain.duration import compact
from holdfast.domain.states import FinalState
from holdfast.errors import SchemaOutdated
from holdfast.insights.job_records import Explanation, JobSummary
from holdfast.storage.explaining import AHEAD_CAP, Circumstances


def explain(job: JobSummary, around: Circumstances, *, is_flow: bool) -> Explanation:
    is_waiting = job.state in ("ready", "scheduled", "gated")
    if is_waiting and around.superseded_by is not None and not is_flow:
        return Explanation(
            job.id,
            "superseded",
            f"Job {around.superseded_by} took over its unique key with newer arguments: this one is "
            "cancelled when a worker takes it.",
            "",
        )
    return _by_state(job, around, is_flow=is_flow)


def _by_state(  # noqa: PLR0911  # a return for each state
    job: JobSummary, around: Circumstances, *, is_flow: bool
) -> Explanation:
    match job.state:
        case "ready":
            return _ready(job, around)
        case "gated":
            return _gated(job, around)
        case "scheduled":
            return _scheduled(job, around)
        case "waiting":
            return _waiting(job, around)
        case "running":
            return _running(job, around, is_flow=is_flow)
        case "succeeded" | "failed" | "cancelled" | "expired":
            return _ended(job, job.state, around, is_flow=is_flow)
        case "lost":
            return Explanation(
                job.id,
                "lost",
                "Its row in the table of its state is missing: it was deleted by hand, or a dump missed it.",
                "No worker will run it. Cancel it, or put it back as the page on tables says of lost jobs.",
            )
        case _:
            assert_never(job.state)


def unknown_id(job: int) -> Explanation:
    return Explanation(
        job,
        "unknown_id",
        f"There is no job {job}.",
        "The transaction that enqueued it was rolled back or is still open, or the job ended and was pruned.",
    )


def schema_behind(job: int, error: SchemaOutdated) -> Explanation:
    """Raises the error again if there is no schema at all: then there is no job either."""
    if not error.found:
        raise error
    return Explanation(
        job,
        "schema_behind",
        f"The database's schema is at version {error.found}, and this release needs {error.needed}: its "
        "workers do not start.",
        "Bring the schema up to date with: holdfast migrate",
    )


def _ready(job: JobSummary, around: Circumstances) -> Explanation:  # a return for each reason
    if job.deadline_at is not None and job.deadline_at <= around.now:
        return Explanation(
            job.id,
            "deadline_passed",
            f"Its deadline passed {_ago(job.deadline_at, around)}: no worker takes it any more.",
            "The leader ends it as expired within seconds." if around.is_led else _NO_LEADER,
        )
    if around.paused_at is not None:
        length = None if around.paused_until is None else _rounded(around.paused_until - around.now)
        until = "" if length is None else f", for another {length}"
        why = "" if around.pause_note is None else f' ("{around.pause_note}")'
        return Explanation(
            job.id,
            "queue_paused",
            f'The queue "{job.queue}" was paused {_ago(around.paused_at, around)}{until}{why}.',
            f"Resume it with: holdfast queues resume {job.queue}",
        )
    if around.able == 0:
        return _unserved(job, around)
    if job.is_parked:
        return Explanation(
            job.id,
            "set_aside",
            "It was set aside while no worker could take it.",
            "The leader puts it back within seconds." if around.is_led else _NO_LEADER,
        )
    if around.busy >= around.slots:
        return _busy(job, around)
    line = "It is next in line" if around.ahead == 0 else f"{_ahead(around)} ahead of it"
    return Explanation(
        job.id,
        "next_in_line",
        f"{line}, and {around.slots - around.busy} of {around.slots} slots are free.",
        "It should begin within seconds.",
    )


def _gated(job: JobSummary, around: Circumstances) -> Explanation:
    ready = _ready(job, around)
    if ready.reason not in ("next_in_line", "slots_busy"):
        return ready
    key = f', key "{job.limit_key}"' if job.limit_key else ""
    return Explanation(
        job.id,
        "limit_reached",
        f'It waits for a permit of the limit "{job.limit}"{key}.',
        "It begins when a job that holds one has ended." if around.is_led else _NO_LEADER,
    )


_NO_LEADER = "No worker leads, which a leader would do: start a worker that may lead."


def _unserved(job: JobSummary, around: Circumstances) -> Explanation:
    if around.workers == 0:
        return Explanation(
            job.id, "no_worker", "No worker is running.", "Start one with: holdfast worker -A …"
        )
    if around.quiet_workers:
        return _quiet(job, around)
    if stopping := around.stopping_workers:
        return Explanation(
            job.id,
            "workers_stopping",
            f"Only {_named(stopping)} could run it, and {_have(stopping)} been asked to stop.",
            "Start another one with: holdfast worker -A …",
        )
    if not around.is_queue_served:
        return Explanation(
            job.id,
            "queue_unserved",
            f'No live worker serves the queue "{job.queue}"{_meant(job.queue, around.queues)}.',
            f"Start one that does with: holdfast worker -A … -q {job.queue}",
        )
    if not around.is_kind_known:
        return Explanation(
            job.id,
            "kind_unknown",
            f'No live worker knows the kind "{job.kind}"{_meant(job.kind, around.kinds)}.',
            "Deploy the code that defines it, or cancel the job if its name is wrong.",
        )
    return Explanation(
        job.id,
        "no_worker_for_both",
        f'Live workers serve the queue "{job.queue}", but none of them knows the kind "{job.kind}".',
        "Let a worker that knows the kind serve the queue, or move the job to a queue that it serves.",
    )


def _quiet(job: JobSummary, around: Circumstances) -> Explanation:
    quiet = around.quiet_workers
    since = "" if around.quiet_at is None else f" for {_rounded(around.now - around.quiet_at)}"
    who = "" if around.quiet_by is None else f", as {around.quiet_by} asked"
    why = "" if around.quiet_reason is None else f' ("{around.quiet_reason}")'
    return Explanation(
        job.id,
        "workers_quiet",
        f"Only {_named(quiet)} could run it, and {_have(quiet)} been quiet{since}{who}{why}.",
        f"Go on with: holdfast workers resume {' '.join(map(str, quiet))}",
    )


def _named(workers: list[int]) -> str:
    listed = ", ".join(map(str, workers))
    return f"worker {listed}" if len(workers) == 1 else f"the workers {listed}"


def _have(workers: list[int]) -> str:
    return "it has" if len(workers) == 1 else "they have"


def _busy(job: JobSummary, around: Circumstances) -> Explanation:
    kinds = ", ".join(around.busy_kinds or [])
    since = "" if around.busy_since is None else f"; the oldest began {_ago(around.busy_since, around)}"
    ahead = "It is next in line." if around.ahead == 0 else f"{_ahead(around)} ahead of it."
    return Explanation(
        job.id,
        "slots_busy",
        f"All {around.slots} slots of its queue in the {_workers(around.able)} that can run it are busy, "
        f"most with {kinds}{since}. {ahead}",
        "Wait, add workers or slots, or look at what runs with: holdfast jobs list state:running",
    )


def _scheduled(job: JobSummary, around: Circumstances) -> Explanation:
    assert job.run_at is not None  # noqa: S101  # a scheduled job has one
    when = f"at {_exact(job.run_at)}, {_in(job.run_at, around)}"
    if job.run_at <= around.now and not around.is_led:
        return Explanation(
            job.id, "no_leader", f"It was due {_ago(job.run_at, around)}, and no worker leads.", _NO_LEADER
        )
    if job.error is not None and job.error.code == "decode_error":
        return Explanation(
            job.id,
            "does_not_fit",
            f"What is stored of it does not fit the code: {job.error}. It is tried again {when}.",
            "Deploy code that can read it within ten minutes of the first try, or cancel it.",
        )
    if job.is_retrying and job.error is not None:
        return Explanation(
            job.id,
            "retry",
            f"Attempt {job.attempt} of {job.max_attempts} ended with {job.error}. It is tried again {when}.",
            "",
        )
    if around.debounced_since is not None and job.started_at is None:
        return _debounced(job, around, when)
    return Explanation(job.id, "scheduled", f"It is to run {when}.", "")


def _debounced(job: JobSummary, around: Circumstances, when: str) -> Explanation:
    assert around.debounced_since is not None  # noqa: S101  # its caller has looked
    until = around.debounced_until
    latest = "" if until is None else f", but to {_exact(until)} at the latest ({_in(until, around)})"
    return Explanation(
        job.id,
        "debounced",
        f"It is debounced, for the first time {_ago(around.debounced_since, around)}, and is to run {when}. "
        f"Another enqueue with its unique key puts it off{latest}.",
        f"Run it now with: holdfast jobs reschedule {job.id} 0s",
    )


def _waiting(job: JobSummary, around: Circumstances) -> Explanation:
    until = "" if around.waits_until is None else f", {_in(around.waits_until, around)} at the latest"
    if around.children:
        listed = ", ".join(f"#{child}" for child in around.children)
        return Explanation(
            job.id,
            "waits_for_child",
            f"It waits for {'job' if len(around.children) == 1 else 'jobs'} {listed}{until}.",
            f"Ask what holds them back with: holdfast jobs explain {around.children[0]}",
        )
    names = ", ".join(f'"{name}"' for name in around.waits) or "an event"
    return Explanation(
        job.id,
        "waits_for_event",
        f"It waits for {names}{until}.",
        "It goes on when app.emit() or holdfast flows emit sends the event.",
    )


def _running(job: JobSummary, around: Circumstances, *, is_flow: bool) -> Explanation:
    where = (
        f"worker {job.worker}"
        if around.host is None
        else f"worker {job.worker} ({around.host}, process {around.pid})"
    )
    is_silent = around.expires_at is not None and around.expires_at <= around.now
    if around.lost_at is not None or is_silent:
        return Explanation(
            job.id,
            "worker_lost",
            f"It was running on {where}, which has not sent a heartbeat in time.",
            "The leader gives it to another worker within seconds." if around.is_led else _NO_LEADER,
        )
    began = "" if job.started_at is None else f" since {_ago(job.started_at, around).removesuffix(' ago')}"
    if job.cancel_requested_at is not None:
        return Explanation(
            job.id,
            "cancelling",
            f"It was asked to stop {_ago(job.cancel_requested_at, around)}, and still runs on {where}.",
            "A coroutine stops at its next await; a plain function has to ask ctx.is_cancelled.",
        )
    newer = (
        f" Job {around.superseded_by} has taken over its unique key, so it is not tried again should it fail."
        if around.superseded_by is not None and not is_flow
        else ""
    )
    return Explanation(job.id, "running", f"It runs{began} on {where}, attempt {job.attempt}.{newer}", "")


def _ended(job: JobSummary, state: FinalState, around: Circumstances, *, is_flow: bool) -> Explanation:
    when = "" if job.finished_at is None else f" {_ago(job.finished_at, around)}"
    error = "." if job.error is None else f": {job.error}"
    error += "" if error.endswith((".", "…")) else "."
    rerun = f"Run it again, as a new job, with: holdfast jobs rerun {job.id}"
    match state:
        case "succeeded":
            sentence, advice = f"It succeeded{when}.", ""
        case "failed" if around.key_holder is not None:
            sentence = f"It failed{when}{error}"
            advice = (
                f"Job {around.key_holder} holds its unique key now, so it cannot be retried before that ends."
            )
        case "failed" if job.error is not None and job.error.code == "flow_diverged":
            sentence = f"It failed{when}{error}"
            advice = (
                "Correct its code, or go back to the code of before: with the same code it fails again. "
                f"Then let it go on with: holdfast flows resume {job.id}"
            )
        case "failed" if is_flow:
            sentence = f"It failed{when}{error}"
            advice = f"Let it go on behind the steps that are done, with: holdfast flows resume {job.id}"
        case "failed":
            sentence = f"It failed{when}{error}"
            advice = f"Run it again with: holdfast jobs retry {job.id}"
        case "cancelled":
            sentence, advice = f"It was cancelled{when}{error}", rerun
        case "expired":
            sentence, advice = f"It expired{when}{error}", rerun
        case _:
            assert_never(state)
    if around.key_until is not None:
        sentence += (
            f" It keeps its unique key until {_exact(around.key_until)}, {_in(around.key_until, around)}."
        )
    return Explanation(job.id, "ended", sentence, advice)


def _meant(name: str, known: list[str]) -> str:
    found = get_close_matches(name, [each for each in known if each != name], n=1)
    return f' (did you mean "{found[0]}"?)' if found else ""


def _ahead(around: Circumstances) -> str:
    if around.ahead >= AHEAD_CAP:
        return f"{AHEAD_CAP:,} jobs or more are"
    return "1 job is" if around.ahead == 1 else f"{around.ahead:,} jobs are"


def _workers(count: int) -> str:
    return "one worker" if count == 1 else f"{count} workers"


def _ago(moment: datetime, around: Circumstances) -> str:
    return f"{_rounded(around.now - moment)} ago"


def _in(moment: datetime, around: Circumstances) -> str:
    length = moment - around.now
    return f"in {_rounded(length)}" if length > timedelta() else "now"


def _rounded(length: timedelta) -> str:
    """Two units at most: `1h 30m`, `12s`, `240ms`."""
    step = timedelta(seconds=1) if length >= timedelta(seconds=10) else timedelta(milliseconds=1)
    whole = timedelta(seconds=max(round(length / step), 0) * step.total_seconds())
    return " ".join(compact(whole).split()[:2])


def _exact(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"
