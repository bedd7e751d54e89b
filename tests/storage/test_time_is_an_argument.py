"""No statement reads the server's clock unless its caller passed no time."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src/holdfast"
FILES = sorted(ROOT.rglob("*.sql"))

CLOCK = re.compile(
    r"\b(?:now|statement_timestamp|clock_timestamp|transaction_timestamp|timeofday)\s*\("
    r"|\b(?:current_timestamp|current_time|current_date|localtimestamp|localtime)\b"
    r"|'(?:now|today|tomorrow|yesterday)'",
    re.IGNORECASE,
)
# As a parameter of a statement, of a function, and of the text of a migration.
UNLESS_GIVEN = re.compile(
    r"coalesce\((?:%\(now\)s::timestamptz|now|\{now\}::timestamptz), statement_timestamp\(\)\)"
)
COMMENT = re.compile(r"--.*$", re.MULTILINE)


def clocks(text: str) -> list[str]:
    return CLOCK.findall(UNLESS_GIVEN.sub("", COMMENT.sub("", text)))


def test_the_files_are_found() -> None:
    assert {"claim.sql", "0001_schema.sql", "record.sql", "noticed.sql"} <= {path.name for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_reads_the_clock_only_where_no_time_is_given(path: Path) -> None:
    assert clocks(path.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "select now()",
        "default statement_timestamp()",
        "coalesce(finished_at, clock_timestamp())",
        "created_at < CURRENT_TIMESTAMP",
        "timestamptz 'now'",
        "coalesce(%(since)s::timestamptz, statement_timestamp())",
    ],
)
def test_other_ways_to_read_the_clock_are_noticed(text: str) -> None:
    assert clocks(text)
