"""Handlers of a script that is run by its path, in child processes; and whole workers that run them."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import App
from worker import shop_in_processes

TESTS = Path(__file__).parents[1]
HOW_TO = TESTS.parent / "docs" / "how-to" / "isolate-in-a-process.md"

HEAD = f"""
import asyncio, os, sys
sys.path.insert(0, {str(TESTS)!r})
from holdfast.worker.processes import Processes
from worker.handler_runs import Run

class NoStock(Exception): ...

def who():
    return os.getpid(), __name__

def fail():
    raise NoStock("none left")

async def main():
    async with Processes() as processes:
        pid, name = await Run.of(who).on(processes)
        assert pid != os.getpid() and name != "__main__"
        try:
            await Run.of(fail).on(processes)
        except NoStock as error:
            print("caught", error, type(error).__module__)
"""
GUARDED = f"{HEAD}\nif __name__ == '__main__':\n    asyncio.run(main())\n"


def _run(*arguments: str, cwd: Path | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_jobs_of_a_guarded_script_run(tmp_path: Path) -> None:
    script = tmp_path / "shop"  # no suffix, as scripts have
    script.write_text(GUARDED, "utf-8")
    done = _run(str(script))
    assert (done.stdout, done.stderr) == ("caught none left __main__\n", "")


def test_jobs_of_a_module_that_is_run_by_its_name_run_and_may_import_relatively(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "prices.py").write_text("tea = 3", "utf-8")
    (package / "jobs.py").write_text(f"from . import prices\n{GUARDED}", "utf-8")
    done = _run("-m", "shop.jobs", cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("caught none left __main__\n", "")


def test_a_script_without_a_guard_is_refused_before_anything_of_it_runs_twice(tmp_path: Path) -> None:
    script = tmp_path / "shop.py"
    script.write_text(f"print('runs')\n{HEAD}\nasyncio.run(main())\n", "utf-8")
    done = _run(str(script))
    assert done.stdout == "runs\n"
    assert 'put what starts the worker behind `if __name__ == "__main__":`' in done.stderr


def test_a_script_that_starts_its_worker_outside_of_its_guard_does_not_start_a_second_one(
    tmp_path: Path,
) -> None:
    script = tmp_path / "shop.py"
    script.write_text(f"{GUARDED}\nasyncio.run(main())", "utf-8")
    done = _run(str(script))
    assert "a child process was importing this script, which starts a worker at once" in done.stderr


def test_code_that_was_typed_in_is_refused() -> None:
    done = _run("-c", GUARDED)
    assert "move the job to a module" in done.stderr


@pytest.mark.machine  # many child processes
def test_a_worker_survives_what_handlers_do_to_their_processes_and_the_ledger_tells_it(dsn: str) -> None:
    done = _run(str(shop_in_processes.__file__), HOLDFAST_DSN=dsn)
    assert done.returncode == 0, done.stderr
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            "select kind, outcome::text, error ->> 'code', error ->> 'type', error ->> 'message', result"
            "  from holdfast.ledger order by kind, run"
        ).fetchall()
    told: dict[str, list[tuple[Any, ...]]] = {}
    for kind, *what in rows:
        told.setdefault(kind, []).append(tuple(what))
    died = "its process exited with 3 before the handler had ended"
    late = "took longer than its timeout of 2s"
    fat = "the handler needs more than its memory_limit of 300,000,000 bytes"
    assert told == {
        "add": [("succeeded", None, None, None, 3)],
        "die": [("failed", "process_died", "holdfast.errors.ProcessDied", died, None)],
        "eat": [("failed", "handler_error", "MemoryError", fat, None)],
        "hog": [("failed", "timeout", "TimeoutError", late, None)],
        "lose_it": [("failed", "handler_error", "LookupError", "it was here", None)],
        "restock": [
            ("retried", "handler_error", "__main__.NoStock", "1", None),
            ("retried", "handler_error", "__main__.NoStock", "2", None),
            ("succeeded", None, None, None, 3),
        ],
    }


async def test_the_how_to_runs_as_it_stands_and_ends_by_a_signal(dsn: str, tmp_path: Path) -> None:
    [script] = re.findall(r"```python\n(.*?)```", HOW_TO.read_text("utf-8"), re.DOTALL)
    (tmp_path / "shop.py").write_text(script, "utf-8")
    caller = App(dsn)

    @caller.job(queue="heavy")
    def render(pages: int) -> int:
        raise NotImplementedError

    worker = await asyncio.create_subprocess_exec(
        sys.executable, str(tmp_path / "shop.py"), env=os.environ | {"HOLDFAST_DSN": dsn}
    )
    try:
        async with caller:
            handle = await render.enqueue(12)
            assert await handle.result("60s") == 12
            assert (await handle.status()).progress == {"value": 1.0, "note": "page 12"}
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(worker.wait(), 60) == 0
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()
