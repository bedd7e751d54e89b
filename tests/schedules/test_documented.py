"""The pages about schedules: examples run as they stand, options and fields are all there."""

import inspect
import re
from dataclasses import fields

import pytest

from holdfast import App, Plan, PlanRecord, Schedule
from holdfast.schedules.options import RuleOptions
from holdfast.schedules.schedules import Schedules
from support.doc_examples import DOCS, run_page

PAGE = (DOCS / "reference/schedules.md").read_text("utf-8")


def test_the_examples_print_what_the_page_says(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page("how-to/schedules.md", monkeypatch)


def test_every_option_verb_and_field_is_in_the_reference() -> None:
    options = set(inspect.signature(App.schedule).parameters) - {"self", "rules"}
    assert options <= set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    words = set(re.findall(r"`(?:plan\.|record\.)?(\w+)", PAGE))
    assert RuleOptions.__optional_keys__ - words == set()
    verbs = {name.removesuffix("_sync") for name in vars(Schedules) if not name.startswith("_")}
    assert verbs <= set(re.findall(r"`app\.schedules\.(\w+)\(", PAGE))
    for value in (Plan, PlanRecord, Schedule):
        assert {field.name for field in fields(value)} - words == set()


def test_every_verb_has_a_blocking_twin_that_takes_the_same() -> None:
    for name, verb in vars(Schedules).items():
        if not name.startswith("_") and not name.endswith("_sync"):
            twin = getattr(Schedules, f"{name}_sync")
            assert inspect.signature(verb).parameters == inspect.signature(twin).parameters, name
