"""The page about policies is run as it stands, and says what it prints."""

import pytest

from support.doc_examples import run_page


def test_every_example_prints_what_the_page_says(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page("how-to/schedule-policies.md", monkeypatch)
