"""README's examples, as a newcomer runs them: in an empty directory, with nothing but the package."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.command_group import commands

README = Path(__file__).parent.parent.parent / "README.md"


@pytest.mark.parametrize(
    ("number", "printed"), [(0, "welcomed 42 in nb\n"), (1, "receipt 42, packed by Ann\n")]
)
def test_an_example_runs_in_an_empty_directory(tmp_path: Path, number: int, printed: str) -> None:
    examples = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert len(examples) == 2
    (tmp_path / "shop.py").write_text(examples[number])
    done = subprocess.run(
        [sys.executable, "-W", "error", "shop.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
    assert not (tmp_path / ".holdfast" / "data" / "postmaster.pid").exists()  # the private server has ended


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_a_page_that_lists_the_commands_of_the_command_line_lists_all(page: str) -> None:
    text = (README.parent / page).read_text("utf-8")
    [listed] = re.findall(r"`holdfast (migrate \|[^`]+)`", text)
    assert sorted(listed.split(" | ")) == sorted(commands.commands)


def test_the_commands_that_readme_names_are_made(tmp_path: Path) -> None:
    makefile = (README.parent / "Makefile").read_text("utf-8")
    for command in re.findall(r"^    make (\w+)", README.read_text("utf-8"), re.MULTILINE):
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), f"make {command} is not in the Makefile"
