"""The pages about flows: every example runs, and the reference names every verb."""

import re

import pytest

from holdfast import Flow
from holdfast.flows.flows import Flows
from support.doc_examples import DOCS, run_page


@pytest.mark.parametrize("page", ["how-to/flows.md", "how-to/state-machines.md"])
def test_every_example_runs_and_prints_what_the_page_says(
    page: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page(page, monkeypatch)


def test_everything_that_a_flow_can_do_is_in_the_reference() -> None:
    text = (DOCS / "reference/flows.md").read_text("utf-8")
    for name in vars(Flow):
        if not name.startswith("_") and name not in {"schema", "code", "fence"}:
            assert re.search(rf"`[^`\n]*\bflow\.{name}\b", text), name


def test_everything_that_operators_can_do_is_in_the_reference() -> None:
    text = (DOCS / "reference/flows.md").read_text("utf-8")
    for name in vars(Flows):
        if not name.startswith("_"):
            assert f"app.flows.{name.removesuffix('_sync')}(" in text, name
