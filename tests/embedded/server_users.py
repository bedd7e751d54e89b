"""Users of an embedded server in processes of their own, driven by a test."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PROGRAM = Path(__file__).with_name("server_user_process.py")


class User:
    """One process. `start` sends it off, `facts` waits for what it tells."""

    def __init__(self, directory: Path, options: Mapping[str, object], *, prefix: Sequence[str] = ()) -> None:
        command = [
            *prefix,
            sys.executable,
            str(_PROGRAM),
            json.dumps({"directory": str(directory), **options}),
        ]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def start(self) -> "User":
        self._write("start\n")
        return self

    def facts(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process ended without a word"
        told: dict[str, Any] = json.loads(line)
        return told

    def leave(self) -> None:
        self._write("leave\n")
        assert self.process.wait(60) == 0

    def exit_without_leaving(self) -> None:
        self._write("exit\n")
        assert self.process.wait(60) == 0

    def signal_group(self, number: signal.Signals) -> None:
        """As the terminal does: to the process and to all that it started in its session."""
        os.killpg(self.process.pid, number)
        self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()
