"""`holdfast dev` and `holdfast worker --reload` as real processes, in a project whose code a test changes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.logs import whole_lines
from support.waiting import block_until

SHOP = """
import asyncio
import time
from pathlib import Path

from holdfast import App

app = App()


@app.job
async def answer() -> str:
    return "first"


@app.job
async def wait_for(name: str) -> str:
    while not Path(name).exists():
        await asyncio.sleep(0.01)
    return "done"


@app.job
def sleep_in_a_thread(seconds: float) -> None:
    time.sleep(seconds)


@app.job
async def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)
"""


class DevProcess:
    def __init__(self, folder: Path, dsn: str | None, *arguments: str) -> None:
        self.folder = folder
        self._log = folder.parent / f"{folder.name}.log"
        environment = {name: value for name, value in os.environ.items() if name != "HOLDFAST_DSN"}
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "holdfast.cli", *arguments],
                cwd=folder,
                env=environment if dsn is None else {**environment, "HOLDFAST_DSN": dsn},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def log(self) -> str:
        return whole_lines(self._log)

    def wait_for_log(self, text: str, *, times: int = 1) -> None:
        self.wait_until(lambda: self.log.count(text) >= times, f"{times} times {text!r}")

    def wait_until(self, is_so: Callable[[], object], what: str) -> None:
        block_until(
            lambda: is_so() or self.process.poll() is not None, lambda: f"{what}:\n{self.log}", within=60
        )
        assert is_so(), f"ended before {what}:\n{self.log}"

    def save(self, text: str, name: str = "shop.py", *, at: int | None = None) -> None:
        """As an editor does: a new file in the place of the old one. `at` is its time, in nanoseconds."""
        new = self.folder / f"{name}~"
        new.write_text(text, "utf-8")
        if at is not None:
            os.utime(new, ns=(at, at))
        new.replace(self.folder / name)

    def signal(self, number: signal.Signals = signal.SIGINT) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        return self.process.wait(60)

    @property
    def worker_pid(self) -> int:
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        [pid] = map(int, listed.stdout.split())
        return pid


@contextmanager
def dev_process(folder: Path, dsn: str | None, *arguments: str) -> Iterator[DevProcess]:
    """It ends with the block, and its worker with it."""
    dev = DevProcess(folder, dsn, *arguments)
    try:
        yield dev
    finally:
        dev.process.kill()
        dev.process.wait()
