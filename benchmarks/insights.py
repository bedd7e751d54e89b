"""`make bench-insights`: how long operators wait for an answer, with five million jobs in the database.

A million wait, half a million are dead letters, the rest has succeeded. Every question is asked through
`app.jobs`, as the command line asks it: several times, and once more right after a restart of the server.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from statistics import quantiles
from typing import Any

import psycopg

from holdfast import App
from holdfast.postgres.embedded import EmbeddedServer

ASKED_MS = 100
ASKED_COLD_MS = 500
_TIMES = 12

_FILL = """
insert into holdfast.job (id, created_at, priority, max_attempts, kind, queue, args, tags)
select n, now() - make_interval(secs => ({jobs} - n) / 50.0), 5, 20, 'kind_' || n % 20, 'queue_' || n % 7,
       json_build_object('customer', n, 'locale', 'nb'), case when n % 1000 = 0 then array['vip'] end
  from generate_series(1, {jobs}) n;
insert into holdfast.ready (job, ready_at, attempt, priority, segment, queue, kind)
select n, now(), 0, 5, n % 4, 'queue_' || n % 7, 'kind_' || n % 20 from generate_series({ready}, {jobs}) n;
insert into holdfast.scheduled (job, run_at, attempt)
select n, now() + interval '1 hour', n % 3 from generate_series({scheduled}, {ready} - 1) n;
insert into holdfast.ledger
       (job, run, ready_at, started_at, finished_at, keep_until, worker, attempt, is_final, queue, kind,
        outcome, error)
select n, n, now(), now(), now(), now() + interval '1 day', 1, 1, true, 'queue_' || n % 7, 'kind_' || n % 20,
       case when n % 7 = 0 then 'failed' when n % 100000 = 1 then 'cancelled' else 'succeeded'
       end::holdfast.outcome,
       case when n % 7 = 0
            then jsonb_build_object('code', 'handler_error', 'type', 'ValueError', 'message', 'no card ' || n)
       end
  from generate_series(1, {scheduled} - 1) n;
insert into holdfast.dead (job, run, died_at)
select n, n, now() from generate_series(7, {scheduled} - 1, 7) n;
insert into holdfast.kind
       (name, first_seen_at, last_seen_at, priority, max_attempts, style, queue, version, parameters, secrets)
select 'kind_' || n, now(), now(), 5, 20, 'coroutine', 'queue_1', '1', '{{}}', '{{}}'
  from generate_series(0, 19) n;
select setval('holdfast.job_id_seq', {jobs}), setval('holdfast.run', {jobs});
"""

FILTERS = (
    "",
    "state:ready",
    "state:ready queue:queue_3 kind:kind_5",
    "state:scheduled",
    "state:retrying",
    "state:failed",
    "state:failed kind:kind_10",
    'state:failed error:"no card 77"',
    "state:succeeded",
    "state:cancelled",
    "state:running",
    "state:ready,failed",
    "kind:kind_3",
    "kind:nothing",
    "tag:vip",
    "created:<1h",
    "finished:<1h kind:kind_2",
    "args.customer:42",
)


def questions(app: App, jobs: int) -> dict[str, Callable[[], object]]:
    asked: dict[str, Callable[[], object]] = {
        f"jobs list {text}".strip(): partial(app.jobs.list_sync, text) for text in FILTERS
    }
    asked["jobs show"] = lambda: app.jobs.show_sync(7)
    asked["jobs explain"] = lambda: app.jobs.explain_sync(jobs)
    asked["queues list"] = app.queues.list_sync
    return asked


def fill(dsn: str, jobs: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set synchronous_commit = off")
        text = _FILL.format(jobs=jobs, ready=jobs - jobs // 5 + 1, scheduled=jobs - jobs // 4 + 1)
        for statement in text.split(";\n"):
            if statement.strip():
                connection.execute(statement.encode())
        connection.execute("vacuum analyze")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.insights", description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000_000, help="how many; 5,000,000 by default")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        with EmbeddedServer.start(directory) as server:
            app = App(server.dsn)
            app.migrate_sync()
            print(f"filling {options.jobs:,} jobs", file=sys.stderr, flush=True)
            fill(server.dsn, options.jobs)
            warm = {name: measured(ask) for name, ask in questions(app, options.jobs).items()}
            app.close_sync()
        with EmbeddedServer.start(directory) as server:  # its cache is empty, that of the system is not
            app = App(server.dsn)
            app.open_sync()
            cold = {name: once(ask) for name, ask in questions(app, options.jobs).items()}
            app.close_sync()
    found = [
        {"question": name, "p50": p50, "p95": p95, "cold": cold[name]} for name, (p50, p95) in warm.items()
    ]
    show(found, is_json=options.json)


def measured(ask: Callable[[], object]) -> tuple[float, float]:
    """The median and the 95th percentile, in milliseconds."""
    ask()
    cuts = quantiles([once(ask) for _ in range(_TIMES)], n=20)
    return round(cuts[9], 1), round(cuts[18], 1)


def once(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return round((time.perf_counter() - began) * 1_000, 1)


def show(found: list[dict[str, Any]], *, is_json: bool) -> None:
    if is_json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'question':<46}{'p50 ms':>9}{'p95 ms':>9}{'restarted':>11}")
    for row in found:
        is_missed = row["p95"] >= ASKED_MS or row["cold"] >= ASKED_COLD_MS
        told = "  MISS" if is_missed else ""
        print(f"{row['question']:<46}{row['p50']:>9}{row['p95']:>9}{row['cold']:>11}{told}")
    print(f"to reach: p95 below {ASKED_MS} ms, below {ASKED_COLD_MS} ms after a restart of the server")


if __name__ == "__main__":
    main()
