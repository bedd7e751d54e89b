"""Every metric: its name, its type, what it tells, and how those of several processes become one."""

from dataclasses import dataclass
from typing import Final, Literal

SECONDS: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0,
)  # fmt: skip
BATCH_SIZES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """`joined`: what one port says for several processes. Counters and histograms are always added."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    joined: Literal["added", "lowest"] = "added"


def _counter(name: str, help: str, *labels: str) -> Metric:  # noqa: A002  # Prometheus calls it so
    return Metric(name, "counter", help, labels)


def _gauge(name: str, help: str, *labels: str) -> Metric:  # noqa: A002
    return Metric(name, "gauge", help, labels)


def _lowest(name: str, help: str) -> Metric:  # noqa: A002
    return Metric(name, "gauge", help, joined="lowest")


# Counted in the processes of this port.
RUNS = _counter("holdfast_runs_total", "Runs that ended, by outcome.", "kind", "queue", "outcome")
RUN_SECONDS = Metric(
    "holdfast_run_seconds", "histogram", "From a claim to its settled end.", ("kind", "queue"), SECONDS
)
WAIT_SECONDS = Metric(
    "holdfast_wait_seconds", "histogram", "How long jobs were ready before a claim.", ("queue",), SECONDS
)
EXPIRED = _counter("holdfast_jobs_expired_total", "Jobs that waited past their deadline.", "kind", "queue")
LEASES_LOST = _counter("holdfast_leases_lost_total", "Runs taken away from this worker.", "kind", "queue")
WORKERS_LOST = _counter("holdfast_worker_losses_total", "Times a worker did not renew in time.")
RESCUES = _counter(
    "holdfast_rescues_total", "Runs that this leader took away from workers.", "kind", "queue", "code"
)
CHORE_ROWS = _counter("holdfast_chore_rows_total", "Rows that chores of the leader moved.", "chore")
CHORE_FAILURES = _counter("holdfast_chore_failures_total", "Turns of chores that failed.", "chore")
PLANS_MISSED = _counter("holdfast_plans_missed_total", "Plans dropped without a fire.", "schedule", "reason")
SCHEDULE_FAILURES = _counter("holdfast_schedule_failures_total", "Schedules with an error.", "schedule")
HOOK_FAILURES = _counter("holdfast_hook_failures_total", "Hooks that raised an error.", "kind", "hook")
LOOP_BLOCKED = _counter("holdfast_event_loop_blocked_total", "Times a handler blocked the event loop.")
LOOP_LAG = Metric(
    "holdfast_event_loop_lag_seconds", "histogram", "How late the event loop was, every 0.5 s.", (), SECONDS
)
SETTLE_BATCH = Metric(
    "holdfast_settle_batch_runs", "histogram", "How many runs one statement settled.", (), BATCH_SIZES
)
SLOTS = _gauge("holdfast_slots", "How many jobs of a queue may run at once.", "queue")
SLOTS_USED = _gauge("holdfast_slots_used", "How many jobs of a queue run.", "queue")
UNSETTLED = _gauge("holdfast_unsettled_runs", "Runs that ended and are not settled yet.")
LEADING = _gauge("holdfast_leading", "1 if the leader is one of these processes.")
LISTENING = _lowest("holdfast_listening", "1 if notifications arrive; 0: a process polls.")
DATABASE_UP = _lowest("holdfast_database_up", "0 if a process has lost the database.")
PROCESSES = _gauge("holdfast_processes", "Worker processes that report here.")
WORKING = _gauge("holdfast_processes_working", "Those that are registered and claim jobs.")

# Asked of the database, by one process: the same at every port.
READY = _gauge("holdfast_queue_ready", "Jobs that wait in a queue, up to 10000.", "queue")
OLDEST_WAIT = _gauge("holdfast_queue_oldest_wait_seconds", "How long the oldest has been due.", "queue")
RUNNING = _gauge("holdfast_queue_running", "Jobs of a queue that run.", "queue")
QUEUE_WORKERS = _gauge("holdfast_queue_workers", "Live workers that serve a queue.", "queue")
PAUSED = _gauge("holdfast_queue_paused", "1 if the queue is paused.", "queue")
LIMIT_HELD = _gauge("holdfast_limit_held", "Permits of a limit that jobs hold.", "limit")
LIMIT_WAITING = _gauge("holdfast_limit_waiting", "Jobs that wait for a limit, up to 10000.", "limit")
LIMIT_WAIT = _gauge("holdfast_limit_oldest_wait_seconds", "How long the oldest of them waits.", "limit")
LIMIT_CLOSED = _gauge("holdfast_limit_closed", "1 if a limit is closed, or its breaker open.", "limit")
JOBS = _gauge("holdfast_jobs", "Jobs in a state that is not final, or failed; up to 10000.", "state")
WORKERS = _gauge("holdfast_workers_live", "Live workers.")
LEADER = _gauge("holdfast_leader_present", "1 if a live worker leads.")
PROMOTE_LAG = _gauge("holdfast_promote_lag_seconds", "How long a delayed job has been due, unpromoted.")
PRUNE_LAG = _gauge("holdfast_prune_lag_seconds", "How long an ended job was kept beyond its time.")
FOLD_LAG = _gauge("holdfast_fold_lag_seconds", "How old the oldest run is that statistics do not have yet.")
PLAN_LAG = _gauge("holdfast_plan_lag_seconds", "How long a plan of a schedule has been due, unfired.")
ANSWER_AGE = _gauge("holdfast_database_answer_age_seconds", "How old these answers are.")
QUESTIONS = _counter("holdfast_database_questions_total", "Questions for these answers.", "result")

OF_PROCESSES: Final = (
    RUNS, RUN_SECONDS, WAIT_SECONDS, EXPIRED, LEASES_LOST, WORKERS_LOST, RESCUES, CHORE_ROWS, CHORE_FAILURES,
    PLANS_MISSED, SCHEDULE_FAILURES, HOOK_FAILURES, LOOP_BLOCKED, LOOP_LAG, SETTLE_BATCH, SLOTS, SLOTS_USED,
    UNSETTLED, LEADING, LISTENING, DATABASE_UP, PROCESSES, WORKING,
)  # fmt: skip
OF_DATABASE: Final = (
    READY, OLDEST_WAIT, RUNNING, QUEUE_WORKERS, PAUSED, LIMIT_HELD, LIMIT_WAITING, LIMIT_WAIT, LIMIT_CLOSED,
    JOBS, WORKERS, LEADER, PROMOTE_LAG, PRUNE_LAG,
    FOLD_LAG, PLAN_LAG, ANSWER_AGE, QUESTIONS,
)  # fmt: skip
METRICS: Final = (*OF_PROCESSES, *OF_DATABASE)
BY_NAME: Final = {metric.name: metric for metric in METRICS}
