"""Pages for users: links lead somewhere, command lines are ones that the command line takes, queries run."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import psycopg
import pytest

from holdfast.cli.command_group import commands
from support.doc_examples import DOCS

ROOT = DOCS.parent
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]+))?\)")
COMMAND = re.compile(r"`(holdfast [a-z][^`\n]*)`")
PLACEHOLDERS = {"NAME": "report", "…": "", "[--graph]": "", "[--missed]": ""}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchors(page: Path) -> set[str]:
    """As a forge makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), target
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{target}#{anchor}"


def command_lines(text: str) -> Iterator[str]:
    yield from COMMAND.findall(text)
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        yield from re.findall(r"^(?:[A-Z_]+=\S+ +)?(holdfast [^#>|\n]*)", block, re.MULTILINE)
    yield from re.findall(r"^ExecStart=\S*/(holdfast .*)$", text, re.MULTILINE)
    for listed in re.findall(r"^ *(?:command: |CMD )\[(.*)\]$", text, re.MULTILINE):
        yield " ".join(word.strip(' "') for word in listed.split(","))


@each_page
def test_every_command_line_is_one_that_is_there(page: Path) -> None:
    for line in command_lines(page.read_text("utf-8")):
        words = [PLACEHOLDERS.get(word, word) for word in shlex.split(line)]
        accept(commands, [word for word in words[1:] if word], line)


def accept(command: click.Command, words: list[str], line: str) -> None:
    """Parse it as the command line would, and do nothing. One without options may only name a command."""
    if isinstance(command, click.Group):
        if words and not words[0].startswith("-"):
            known = command.get_command(click.Context(command), words[0])
            assert known is not None, line
            accept(known, words[1:], line)
    elif any(word.startswith("-") for word in words):
        known_options = {option for parameter in command.params for option in parameter.opts}
        for word in words:
            if word.startswith("-"):
                assert word.partition("=")[0] in known_options | {"-h", "--help"}, line


@pytest.mark.parametrize("page", ["how-to/troubleshooting.md"])
def test_every_query_runs(page: str, dsn: str) -> None:
    queries = re.findall(r"```sql\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    assert queries
    with psycopg.connect(dsn) as connection:
        for query in queries:
            connection.execute(query.encode())


def test_every_page_is_listed() -> None:
    listed = set(re.findall(r"\]\((\w[\w-]*/[\w-]+\.md)", (DOCS / "README.md").read_text("utf-8")))
    assert {str(page.relative_to(DOCS)) for page in DOCS.glob("*/*.md")} - listed == set()
