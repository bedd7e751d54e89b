"""The tutorial is followed to the letter: files are saved, commands typed, and what is shown waited for."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.waiting import block_until

pytestmark = pytest.mark.machine  # starts servers and workers

PAGE = Path(__file__).parent.parent / "docs/tutorial/first-job.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
LOGGED = r"\d{4}-\d\d-\d\dT"
FILE = re.compile(r"`(\w+\.py)`:\s*$")


class Terminal:
    """A shell whose output, and that of all that it starts, is read from a file."""

    def __init__(self, folder: Path) -> None:
        self._output = folder.parent / "terminal.txt"
        self._seen = 0
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        with self._output.open("w") as file:
            self.shell = subprocess.Popen(
                ["bash", "--norc"],
                cwd=folder,
                env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                text=True,
                start_new_session=True,
            )

    def type(self, text: str) -> None:
        assert self.shell.stdin
        self.shell.stdin.write(text)
        self.shell.stdin.flush()

    def wait_for(self, shown: str) -> None:
        """Each line, in any order among those since the last time; `…` stands for anything. Python prints a
        line and its end apart: one of the worker's log may get in between.
        """
        lines = [re.escape(line).replace("…", ".*") for line in shown.splitlines()]
        patterns = [re.compile(f"^{line}($|{LOGGED})", re.MULTILINE) for line in lines]

        def missing() -> list[str]:
            return [each.pattern for each in patterns if not each.search(self.new)]

        block_until(lambda: not missing(), lambda: f"shown: {missing()}\n{self._output.read_text()}")
        self._seen = len(self._output.read_text())

    @property
    def new(self) -> str:
        return self._output.read_text()[self._seen :]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    folder = tmp_path / "bakery"
    folder.mkdir()
    terminal = Terminal(folder)
    with terminal.shell as shell:
        yield terminal
        terminal.type("kill $worker $dev; wait\nexit\n")
        shell.wait(60)


def test_every_block_of_the_tutorial_does_what_it_says(terminal: Terminal, tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8")
    for block in BLOCK.finditer(page):
        match block[1]:
            case "python":
                name = FILE.search(page[: block.start()].rstrip())
                assert name, f"no name for {block[2]}"
                with (tmp_path / "bakery" / name[1]).open("a", encoding="utf-8") as file:
                    file.write(f"\n\n{block[2]}")
            case "sh":
                terminal.type(block[2])
            case "text":
                terminal.wait_for(block[2])
            case other:
                pytest.fail(f"a block of {other} is not tried")
