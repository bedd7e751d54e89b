"""What a checkpoint costs a flow that is alone, and its whole step, beside the bare INSERT of such a row."""

import time
from collections import defaultdict
from collections.abc import Iterator
from statistics import median

import psycopg
import uvloop

from benchmarks.bench import Bench
from benchmarks.figure import Figure, Target
from benchmarks.flows.extent import Extent
from holdfast import App, Flow
from holdfast.postgres.database import Database
from holdfast.postgres.options import PoolOptions
from holdfast.storage.flows import Writing, checkpoint
from holdfast.storage.session import SETTINGS
from holdfast.worker.options import WorkerOptions

_TABLE = """
create table bare (
  job bigint not null,
  name text not null,
  written_at timestamptz not null default now(),
  value jsonb,
  primary key (job, name)
)
"""
_INSERT = "insert into bare (job, name, value) values (%s, %s, %s)"
_WARM_UP = 0.2
_NAMES = {"checkpoint": "checkpoint", "step": "whole step"}


def lone(bench: Bench, extent: Extent) -> Iterator[Figure]:
    rounds = lone_rounds(bench, extent.rounds, extent.lone_steps)
    for what in ("checkpoint", "step"):
        took = min(rounds, key=lambda each: each[what] / each["insert"])
        yield Figure(
            "lone",
            f"a lone flow's {_NAMES[what]}, against one bare INSERT",
            took[what] / took["insert"],
            Target("at_most", 1.5, "x"),
            f"{took[what]:.3f} against {took['insert']:.3f} ms, median of {extent.lone_steps:,}",
        )


def lone_rounds(bench: Bench, rounds: int, steps: int) -> list[dict[str, float]]:
    """Milliseconds of `step`, `checkpoint` and `insert`, round by round."""
    found = []
    for _ in range(rounds):
        with bench.database() as dsn:
            took = uvloop.run(_times(dsn, steps))
        bench.say(", ".join(f"{what} {each:.3f} ms" for what, each in took.items()))
        found.append(took)
    return found


async def _times(dsn: str, number: int) -> dict[str, float]:
    """Milliseconds. They take turns within one flow, so that the disk treats them alike."""
    times: dict[str, list[float]] = defaultdict(list)
    async with (
        App(dsn) as app,
        Database(dsn, PoolOptions(pool_min_conns=1), session=SETTINGS) as database,
        await psycopg.AsyncConnection.connect(dsn, autocommit=True, prepare_threshold=0) as connection,
    ):
        await connection.execute(_TABLE)

        @app.flow
        async def alone(flow: Flow) -> None:
            replay = flow._replay  # noqa: SLF001  # its own checkpoint is what is measured
            for each in range(number):
                name, value = f"checkpoint[{each}]", '{"step": 1, "cents": 1200}'
                writing = Writing(replay.fence, name, "step", value, code=replay.code)
                turns = {
                    "step": flow.step("step", _step, each, key=each),
                    "checkpoint": database.run(checkpoint(replay.recorder.schema, [writing])),
                    "insert": connection.execute(_INSERT, (flow.job.id, name, value)),
                }
                for what, turn in turns.items():
                    began = time.perf_counter()
                    await turn
                    times[what].append(time.perf_counter() - began)

        async with app.worker(options=WorkerOptions(queues={"default": 1})):
            await (await alone.enqueue()).result(timeout="60s")
    return {what: median(each[int(number * _WARM_UP) :]) * 1e3 for what, each in times.items()}


async def _step(number: int) -> dict[str, int]:
    return {"step": number, "cents": 1_200}
