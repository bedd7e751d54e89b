"""The command line as a whole: help, version, usage errors, and its reference page."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast import __version__
from holdfast.cli import main
from holdfast.cli.command_group import commands
from holdfast.storage.migrations import known_version

REFERENCE = Path(__file__).parent.parent.parent / "docs/reference/cli.md"
Captured = pytest.CaptureFixture[str]


def test_version_tells_what_a_bug_report_needs(capsys: Captured) -> None:
    assert main(["version"]) == 0
    assert f"holdfast {__version__}\nschema {known_version()}\n" in capsys.readouterr().out
    assert main(["version", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert set(facts) == {"holdfast", "schema", "python", "psycopg", "libpq"}
    assert (facts["holdfast"], facts["schema"]) == (__version__, known_version())


def test_help_lists_the_commands(capsys: Captured) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert [name for name in commands.commands if name not in out] == []


@pytest.mark.parametrize(
    ("arguments", "told", "helpful"),
    [
        (["fly"], "No such command 'fly'", "holdfast"),
        (["migrate", "--fly"], "No such option '--fly'", "holdfast migrate"),
        (["version", "more"], "unexpected extra argument (more)", "holdfast version"),
        (["worker"], "Missing option '-A' / '--app'", "holdfast worker"),
        (["worker", "-A", "shop"], "'shop' does not name an app", "holdfast worker"),
        (["schedules", "show"], "Missing argument 'NAME'", "holdfast schedules show"),
        (["flows", "list", "-n", "0"], "0 is not in the range 1<=x<=10000", "holdfast flows list"),
        (["flows", "list", "--limit", "five"], "Invalid value for '-n' / '--limit'", "holdfast flows list"),
        (["migrate", "--lock-timeout", "5"], "Invalid value for '--lock-timeout'", "holdfast migrate"),
    ],
)
def test_a_wrong_call_is_one_line_that_says_what_is_wrong_and_where_to_read_on(
    arguments: list[str], told: str, helpful: str, capsys: Captured
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    [line] = err.splitlines()
    assert line.startswith("holdfast: ")
    assert told in line
    assert f'(see "{helpful} --help")' in line


def test_no_command_at_all_shows_the_help(capsys: Captured) -> None:
    assert main([]) == 2
    assert "Usage: holdfast" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["migrate"],
        ["migrate", "--check"],
        ["schedules", "list"],
        ["worker", "-A", "shop:app"],
        ["worker", "-A", "shop:app", "--processes", "2"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("given", [None, "mysql://user:hidden@host/shop", "nonsense hidden"])
def test_a_database_that_is_not_named_or_cannot_be_is_a_wrong_call_of_every_command(
    command: list[str], given: str | None, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(
        "from holdfast import App\napp = App()\n@app.job\nasync def send() -> None: ...\n", "utf-8"
    )
    environment = {name: value for name, value in os.environ.items() if name != "HOLDFAST_DSN"}
    ended = subprocess.run(
        [sys.executable, "-m", "holdfast.cli", *command, *(["--dsn", given] if given else [])],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith("holdfast: ")
    assert "postgresql://user@host/database" in line
    assert "hidden" not in line


INTERRUPTED = """
import sys

class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == "holdfast.cli.command_group":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Impatient())
from holdfast.cli import main
sys.exit(main(["version"]))
"""


def test_ctrl_c_before_a_command_has_begun_ends_in_one_line() -> None:
    command = [sys.executable, "-c", INTERRUPTED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "holdfast: interrupted\n")


def every_command(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from every_command(command, f"{path} {name}")


@pytest.mark.parametrize(("path", "command"), list(every_command(commands, "holdfast")))
def test_every_command_and_option_is_in_the_reference(path: str, command: click.Command) -> None:
    sections = re.split(r"^## ", REFERENCE.read_text("utf-8"), flags=re.MULTILINE)
    section = next((each for each in sections if each.startswith(f"`{path}`")), None)
    assert section, f"{REFERENCE.name} has no section ## `{path}`"
    options = [name for param in command.params if isinstance(param, click.Option) for name in param.opts]
    assert [name for name in options if not re.search(rf"`{name}\b", section)] == []


def test_the_reference_mentions_no_command_that_does_not_exist() -> None:
    documented = re.findall(r"^## `(holdfast [^`]*)`", REFERENCE.read_text("utf-8"), flags=re.MULTILINE)
    assert set(documented) == {path for path, _ in every_command(commands, "holdfast")}
