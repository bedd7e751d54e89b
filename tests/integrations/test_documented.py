"""The pages about middleware and tracing: their examples run."""

import pytest

from support.doc_examples import run_page


@pytest.mark.parametrize("page", ["middleware", "tracing"])
def test_every_example_runs_and_prints_what_the_page_says(
    page: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page(f"how-to/{page}.md", monkeypatch)
