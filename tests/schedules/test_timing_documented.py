"""The page about the time of schedules is run as it stands, and says what it prints."""

import pytest

from support.doc_examples import run_page


def test_every_example_prints_what_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    run_page("explanation/time-of-schedules.md", monkeypatch)
