"""What all commands share on a terminal: colour, lists that are watched, completion by the shell."""

import asyncio
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from cli.terminal import terminal
from holdfast.cli import main
from holdfast.cli.command_group import commands
from support.proxy import Proxy

Captured = pytest.CaptureFixture[str]
HOLDFAST = [sys.executable, "-m", "holdfast.cli"]
BOLD = b"\x1b[1m"


def on_a_terminal(arguments: list[str], is_enough: Callable[[bytes], bool], **variables: str) -> bytes:
    """What a command writes to a terminal, until that is enough or it ends."""
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    own, other = pty.openpty()
    running = subprocess.Popen(
        [*HOLDFAST, *arguments],
        stdin=other,
        stdout=other,
        stderr=other,
        env={**inherited, "TERM": "xterm", **variables},
    )
    os.close(other)
    text = b""
    try:
        while not is_enough(text):
            try:
                text += os.read(own, 4096)
            except OSError:  # the command has ended
                break
    finally:
        running.kill()
        running.wait()
        os.close(own)
    return text


def never(_text: bytes) -> bool:
    return False


def test_heads_are_bold_on_a_terminal_unless_the_user_wants_no_colour(dsn: str) -> None:
    command = ["audit", "--dsn", dsn]
    assert main(["enqueue", "work", "--force", "--dsn", dsn]) == 0
    assert BOLD in on_a_terminal(command, never)
    assert BOLD in on_a_terminal(command, never, NO_COLOR="")
    for text in (
        on_a_terminal(command, never, NO_COLOR="1"),
        on_a_terminal(["--no-color", *command], never),
    ):
        assert b"WHEN " in text
        assert b"\x1b" not in text


def test_a_watched_list_is_printed_again(dsn: str) -> None:
    text = on_a_terminal(
        ["queues", "list", "--watch", "--dsn", dsn], lambda text: text.count(b"there are no queues") == 2
    )
    assert text.count(b"\x1b[2J") == 2, "each takes the place of the one before"


async def test_a_watched_list_outlives_an_outage_of_the_database_and_says_so(dsn: str) -> None:
    async with Proxy.before(dsn) as proxy:
        with terminal("queues", "list", "--watch", "--dsn", proxy.dsn(dsn)) as shown:
            await asyncio.to_thread(shown.read_until, "there are no queues")
            proxy.refuse()
            proxy.reset()
            await asyncio.to_thread(shown.read_until, "trying again", within=100)
            proxy.pass_through()
            shown.forget()
            await asyncio.to_thread(shown.read_until, "there are no queues")


@pytest.mark.parametrize(
    "group",
    ["audit", "failures", "flows", "jobs", "kinds", "operations", "queues", "schedules", "workers"],
)
def test_a_list_can_be_watched(group: str) -> None:
    listing = commands.commands[group]
    assert isinstance(listing, click.Group)
    assert "--watch" in _options(listing.commands["list"])


def _options(command: click.Command) -> list[str]:
    return [name for param in command.params for name in param.opts]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_and_how_to_install_it(shell: str, capsys: Captured) -> None:
    assert main(["completion", shell]) == 0
    out = capsys.readouterr().out
    assert f"_HOLDFAST_COMPLETE={shell}_complete" in out
    assert f"holdfast completion {shell}" in out.splitlines()[-1]
    assert out.splitlines()[-1].startswith("# ")


def test_another_shell_is_refused(capsys: Captured) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    (tmp_path / "holdfast").write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast.cli "$@"\n', "utf-8")
    (tmp_path / "holdfast").chmod(0o755)
    script = (
        'eval "$(holdfast completion bash)"\n'
        "COMP_WORDS=(holdfast jobs resc) COMP_CWORD=2\n_holdfast_completion holdfast resc jobs\n"
        'echo "${COMPREPLY[@]}"\n'
        "COMPREPLY=() COMP_WORDS=(holdfast jobs cancel --re) COMP_CWORD=3\n"
        "_holdfast_completion holdfast --re cancel\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    ended = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.stdout.splitlines(), ended.stderr) == (["reschedule", "--reason"], "")
