"""The pages for users are run as they stand, and say what they print."""

import pytest

from support.doc_examples import run_page

PAGES = ["reference/arguments.md", "explanation/arguments-over-deploys.md"]


@pytest.mark.parametrize("page", PAGES)
def test_every_example_prints_what_the_page_says(
    page: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page(page, monkeypatch)
