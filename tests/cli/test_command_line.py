import json
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast import __version__
from holdfast.cli import main
from holdfast.cli.group import commands
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


@pytest.mark.parametrize("arguments", [["fly"], ["migrate", "--fly"], ["version", "more"]])
def test_an_unknown_command_option_or_argument_is_a_usage_error(
    arguments: list[str], capsys: Captured
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Usage: holdfast" in err


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
