"""Tables and facts: within the width of a terminal, in colour there; whole and plain elsewhere."""

import subprocess
import sys
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from cli.terminal import FakeTerminal, terminal, without_styles
from holdfast.cli import main
from holdfast.cli.state_look import Cell, marked
from holdfast.cli.table import Columns, print_columns, print_facts

Captured = pytest.CaptureFixture[str]

COLUMNS = Columns(("ID", "KIND", "CREATED", "ARGS", "ERROR"), flexible=("ARGS", "ERROR"), spare=("CREATED",))
ROWS = [
    (
        "7",
        "charge",
        "3m ago",
        '{"note": "山田太郎 👍 leave it behind the green door, thanks"}',
        "ValueError: " * 5,
    ),
    ("1,204", "mail", "1h ago", "{}", ""),
]


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int, draw: Callable[[], None]) -> list[str]:
    out = FakeTerminal()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    draw()
    return out.getvalue().splitlines()


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 160, 200])
def test_a_table_fits_the_terminal_wide_characters_too(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    lines = on_terminal(monkeypatch, columns, lambda: print_columns(COLUMNS, ROWS))
    assert len(lines) == 1 + len(ROWS)
    assert max(cell_len(without_styles(line)) for line in lines) <= columns


def test_what_can_be_spared_is_left_out_before_values_become_illegible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    narrow = on_terminal(monkeypatch, 56, lambda: print_columns(COLUMNS, ROWS))
    assert "CREATED" not in narrow[0]
    assert "…" in narrow[1]
    wide = on_terminal(monkeypatch, 200, lambda: print_columns(COLUMNS, ROWS))
    assert "CREATED" in wide[0]
    assert "…" not in wide[1]


def test_numbers_stand_below_each_other_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = on_terminal(monkeypatch, 200, lambda: print_columns(COLUMNS, ROWS))
    assert [without_styles(line)[:6] for line in lines[1:]] == ["    7 ", "1,204 "]


def test_piped_output_is_whole_and_plain(capsys: Captured) -> None:
    print_columns(COLUMNS, ROWS)
    out = capsys.readouterr().out
    assert ROWS[0][3] in out
    assert ROWS[0][4].rstrip() in out
    assert "\x1b" not in out
    assert "…" not in out


def test_text_of_a_job_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    row = ("1", "mail", "", "\x1b]0;owned\x07", "one\ntwo\x9b31m")
    print_columns(COLUMNS, [row])
    print_facts(["mail \x1b[2J"], [("error", "a\rb")])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["1", "mail", r"\x1b]0;owned\x07", "one", r"two\x9b31m"]
    assert lines[2:] == [r"mail \x1b[2J", r"  error     a\x0db"]
    drawn = on_terminal(monkeypatch, 200, lambda: print_columns(COLUMNS, [row]))
    assert r"\x1b]0;owned\x07" in drawn[1]
    assert "\x07" not in drawn[1]


def test_a_state_has_an_icon_a_word_and_a_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, rows = Columns(("STATE",)), [(marked("failed"),), (marked("succeeded"),), (marked("retrying"),)]
    lines = on_terminal(monkeypatch, 80, lambda: print_columns(columns, rows))
    assert [without_styles(line).strip() for line in lines[1:]] == ["✕ failed", "✓ succeeded", "↻ retrying"]
    assert ["\x1b[31m" in lines[1], "\x1b[32m" in lines[2], "\x1b[33m" in lines[3]] == [True] * 3


def test_an_age_is_a_time_when_it_is_piped(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    columns = Columns((Cell("WHEN (UTC)", on_terminal="WHEN"),))
    rows = [(Cell("2026-11-18 02:03:04", on_terminal="3m ago"),)]
    print_columns(columns, rows)
    assert capsys.readouterr().out == "WHEN (UTC)\n2026-11-18 02:03:04\n"
    lines = on_terminal(monkeypatch, 80, lambda: print_columns(columns, rows))
    assert [without_styles(line).strip() for line in lines] == ["WHEN", "3m ago"]


def test_long_facts_go_on_below_their_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = [("now", "a word " * 20), ("last plan", "never")]
    lines = on_terminal(monkeypatch, 60, lambda: print_facts(["charge 7", marked("failed")], facts))
    plain = [without_styles(line).rstrip() for line in lines]
    assert plain[0] == "charge 7  ✕ failed"
    assert plain[1].startswith("  now        a word")
    assert plain[2].index("word") >= 13, "below the first word"
    assert plain[2].startswith(" " * 13)
    assert plain[-1] == "  last plan  never"
    assert max(map(len, plain)) <= 60


@pytest.mark.parametrize("command", ["--help", "version"])
def test_help_and_workers_do_not_wait_for_the_drawing(command: str) -> None:
    """rich takes as long to import as half of the rest."""
    script = (
        "import sys\nfrom holdfast.cli import main\n"
        f"main([{command!r}])\nimport holdfast.cli.worker\n"
        "sys.exit(any(name.split('.')[0] == 'rich' for name in sys.modules))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0


def test_a_list_in_a_terminal_is_within_its_width_and_in_colour(dsn: str) -> None:
    assert main(["enqueue", "a.kind.with.a.rather.long.name", "--force", "--dsn", dsn]) == 0
    with terminal("jobs", "list", "--dsn", dsn, columns=60) as shown:
        shown.read_to_the_end()
    assert "○ ready" in shown.text
    assert max(map(len, shown.lines)) <= 60
