"""The reference of events and holdfast.telemetry.events name the same events, with the same fields."""

import re
from typing import Any, get_args, get_type_hints

import pytest

from holdfast.telemetry import events
from support.doc_examples import DOCS, run_page

PAGE = "reference/events.md"
ROWS = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+?) \|$", (DOCS / PAGE).read_text("utf-8"), re.MULTILINE)
KINDS: tuple[type[Any], ...] = (events.AttemptFact, *get_args(events.Event))


def test_the_page_shows_every_event_once_and_no_other() -> None:
    assert sorted(name for name, _, _ in ROWS) == sorted(kind.__name__ for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_event_is_shown_with_its_fields_in_their_order(kind: type[Any]) -> None:
    [fields] = [fields for name, _, fields in ROWS if name == kind.__name__]
    assert re.findall(r"`(\w+)`", fields) == list(get_type_hints(kind))


def test_the_example_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page(PAGE, monkeypatch)
