"""What Python warns of in a worker is a line of its log: with category and place, and with the job."""

import json
from pathlib import Path

import psycopg
import pytest

from cli.worker_processes import APP, Start, enqueue

WARNING_APP = (
    APP.replace("from holdfast import App, Retry", "from holdfast import App, Context, Retry")
    + """
import warnings

warnings.warn("said on import\\nin two lines")


@app.job
async def forget() -> None:
    asyncio.sleep(0)


@app.job
async def write_beside(ctx: Context) -> None:
    async with ctx.transaction():
        await send.enqueue(1)


@app.job
async def stop_the_loop() -> None:
    send.enqueue_sync(2)


@app.job(isolate="process")
def warn_in_a_process() -> None:
    warnings.warn("said in a child", DeprecationWarning)


warnings.simplefilter("default")
"""
)

CATEGORIES = {
    "forget": "RuntimeWarning",
    "write_beside": "OutsideTransaction",
    "stop_the_loop": "BlocksEventLoop",
    "warn_in_a_process": "DeprecationWarning",
}


@pytest.fixture
def jobs(folder: Path, conn: psycopg.Connection) -> dict[str, int]:
    (folder / "shop.py").write_text(WARNING_APP, "utf-8")
    return {kind: enqueue(conn, kind) for kind in CATEGORIES}


def test_every_line_is_one_object_also_when_python_warns(
    start: Start, folder: Path, jobs: dict[str, int]
) -> None:
    worker = start("--once", "--log-format", "json")
    assert worker.ended() == 0, worker.log
    lines = [json.loads(line) for line in worker.log.splitlines()]
    warned = [line for line in lines if line["logger"] == "py.warnings"]
    assert {line["level"] for line in warned} == {"WARNING"}
    assert all(line["at"].startswith(f"{folder / 'shop.py'}:") for line in warned)
    of_jobs = {line["job"]: line for line in warned if "job" in line}
    assert {kind: of_jobs[job]["category"] for kind, job in jobs.items()} == CATEGORIES
    assert all({"run", "attempt", "message"} <= line.keys() for line in of_jobs.values())
    assert of_jobs[jobs["forget"]]["message"] == "coroutine 'sleep' was never awaited"
    # A child imports the module, too.
    said = {(line["message"], line["category"]) for line in warned if "job" not in line}
    assert said == {("said on import\nin two lines", "UserWarning")}


def test_text_has_one_line_for_each_warning(start: Start, folder: Path, jobs: dict[str, int]) -> None:
    worker = start("--once", "--log-format", "text")
    assert worker.ended() == 0, worker.log
    assert all(
        " holdfast." in line or " shop " in line or " py.warnings " in line
        for line in worker.log.splitlines()
    )
    assert (
        f"WARNING py.warnings said on import\\nin two lines: category=UserWarning at={folder}" in worker.log
    )
    forgotten = next(line for line in worker.log.splitlines() if "never awaited" in line)
    assert (
        " WARNING py.warnings coroutine 'sleep' was never awaited: category=RuntimeWarning at=" in forgotten
    )
    assert f" job={jobs['forget']} run=" in forgotten


def test_an_app_with_a_log_of_its_own_keeps_pythons_warnings(
    start: Start, folder: Path, jobs: dict[str, int]
) -> None:
    own = "import logging\nlogging.basicConfig(level='INFO', format='mine: %(message)s')\n"
    (folder / "shop.py").write_text(own + WARNING_APP, "utf-8")
    worker = start("--once")
    assert worker.ended() == 0, worker.log
    assert "RuntimeWarning: coroutine 'sleep' was never awaited\n" in worker.log
    assert "DeprecationWarning: said in a child\n" in worker.log
