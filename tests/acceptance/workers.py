"""Workers in processes of their own, and what can be done to them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from acceptance.books import Books
from support.logs import whole_lines
from support.waiting import until

TESTS = Path(__file__).parents[1]

_MISTAKES = ("never retrieved", "Traceback", "RuntimeWarning", "ResourceWarning", "never awaited")


class WorkerProcess:
    """One worker. Its id in the database is that of its first registration."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, books: Books) -> None:
        self._process = process
        self._log = log
        self._books = books
        self.pid = process.pid
        self.id = 0

    @property
    def log(self) -> list[str]:
        return whole_lines(self._log).splitlines()

    def lines(self, *words: str) -> list[str]:
        """The log lines that contain all of these words."""
        return [line for line in self.log if all(word in line for word in words)]

    async def registered(self) -> None:
        await until(lambda: self.has_ended or self._books.workers(self.pid), "a worker registers")
        assert not self.has_ended, "\n".join(self.log)
        self.id = self._books.workers(self.pid)[0]

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(10)

    def terminate(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    async def exit_code(self, within: float = 20) -> int:
        await until(lambda: self.has_ended, "a worker ends", within=within)
        return int(self._process.returncode)

    async def stop(self) -> None:
        """Tell the worker to stop, and check that it exits with 0 and logged no warning."""
        self.terminate()
        assert await self.exit_code() == 0, "\n".join(self.log)
        mistakes = [line for line in self.log if any(word in line for word in _MISTAKES)]
        assert not mistakes, "\n".join(self.log)

    def destroy(self) -> None:
        with suppress(ProcessLookupError):
            self.thaw()
            self.kill()


class Workers:
    """Starts workers, and leaves none behind."""

    def __init__(self, dsn: str, books: Books, directory: Path) -> None:
        self._dsn = dsn
        self._books = books
        self._directory = directory
        self._all: list[WorkerProcess] = []

    async def start(
        self,
        *,
        dsn: str | None = None,
        module: str = "acceptance.shop",
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> WorkerProcess:
        worker = self._launch(dsn or self._dsn, module, environment or {}, options)
        await worker.registered()
        return worker

    async def start_several(self, count: int, **options: Any) -> list[WorkerProcess]:
        several = [self._launch(self._dsn, "acceptance.shop", {}, options) for _ in range(count)]
        await asyncio.gather(*(worker.registered() for worker in several))
        return several

    def _launch(
        self, dsn: str, module: str, environment: Mapping[str, str], options: Mapping[str, Any]
    ) -> WorkerProcess:
        log = self._directory / f"worker-{len(self._all)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "acceptance.run_worker", module, json.dumps(options)],
                cwd=TESTS,
                stdout=out,
                stderr=out,
                env={**os.environ, "HOLDFAST_DSN": dsn, "SHOP_DIARY": str(self._books.diary), **environment},
            )
        worker = WorkerProcess(process, log, self._books)
        self._all.append(worker)
        return worker

    def destroy(self) -> None:
        for worker in self._all:
            worker.destroy()
