"""The states and outcomes that Python knows are those of the schema, of every statement and of the docs."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from holdfast.cli.state_look import look
from holdfast.domain.states import (
    FINAL_STATES,
    JOB_STATES,
    RUN_OUTCOMES,
    ActiveState,
    ContinuingOutcome,
    FinalState,
    RunOutcome,
    final_state,
)
from holdfast.flows.records import STEP_STATES, StepState
from holdfast.storage.statements import FOLDER
from holdfast.worker.job_kind import Hooks
from storage.every_statement import KNOWN
from support.engine import Engine

_ACTIVE_STATES = frozenset(get_args(ActiveState))
_CONTINUING_OUTCOMES = frozenset(get_args(ContinuingOutcome))
_DOCS = Path(__file__).parents[2] / "docs" / "reference"
_STORAGE = Path(str(FOLDER)).parent
_LIST = re.compile(r"\boutcomes?(?:\[[^\]]*\])?\s+(?:not\s+)?in\s+\(([^)]*)\)")
_ARRAY = re.compile(r"'\{([a-z,]+)\}'::\{schema\}\.outcome\[\]")
# What a statement may list by itself, and why. All final outcomes, and all others, are filled in from Python.
_PARTS = {
    frozenset({"retried", "snoozed"}): "goes to the table scheduled",
    frozenset({"snoozed", "released"}): "calls no hook",
    frozenset({"failed", "retried"}): "is counted for its group of failures",
    frozenset({"cancelled", "expired"}): "is found by the index ledger_stopped",
}


def test_the_outcomes_of_python_are_those_of_the_schemas_enum(engine: Engine) -> None:
    rows = engine.connection.execute("select unnest(enum_range(null::holdfast.outcome))::text").fetchall()
    assert {outcome for (outcome,) in rows} == set(RUN_OUTCOMES)


def test_the_states_of_python_are_those_of_the_view_of_jobs(engine: Engine) -> None:
    [(view,)] = engine.connection.execute("select pg_get_viewdef('holdfast.jobs')").fetchall()
    [case] = re.findall(r"CASE((?:(?!CASE).)*?)END AS state", view, re.DOTALL)
    assert "f.outcome" in case, "a final state is the outcome of the last run"
    assert set(re.findall(r"'(\w+)'", case)) | FINAL_STATES == set(JOB_STATES)


def test_a_state_is_active_or_final_or_lost_and_an_outcome_ends_the_job_or_lets_it_go_on() -> None:
    assert {*_ACTIVE_STATES, *FINAL_STATES, "lost"} == set(JOB_STATES)
    assert len(_ACTIVE_STATES) + len(FINAL_STATES) + 1 == len(JOB_STATES)
    assert set(RUN_OUTCOMES) == FINAL_STATES | _CONTINUING_OUTCOMES
    assert len(FINAL_STATES) + len(_CONTINUING_OUTCOMES) == len(RUN_OUTCOMES)


def test_a_statement_lists_no_outcomes_that_could_be_filled_in_from_python() -> None:
    """So that a new outcome is in all of them at once."""
    texts = {
        path.name: path.read_text("utf-8")
        for folder in ("sql", "sql_parts")
        for path in (_STORAGE / folder).glob("*.sql")
    }
    lists = [
        (name, frozenset(re.findall(r"\w+", listed)))
        for name, text in texts.items()
        for listed in (*_LIST.findall(text), *_ARRAY.findall(text))
    ]
    assert {listed for _, listed in lists if listed & set(RUN_OUTCOMES)} == set(_PARTS), "a list is found"
    assert [
        (name, sorted(listed))
        for name, listed in lists
        if listed & set(RUN_OUTCOMES) and listed not in _PARTS
    ] == []


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("claim", FINAL_STATES),
        ("cancel", FINAL_STATES),
        ("expire", FINAL_STATES),
        ("lost_leases", FINAL_STATES),
        ("settle", _CONTINUING_OUTCOMES),
    ],
)
def test_the_outcomes_of_a_statement_are_those_of_python(name: str, outcomes: frozenset[str]) -> None:
    lists = re.findall(r"(?:\bin \(|array\[)((?:'\w+'(?:, )?)+)[)\]]", KNOWN[name].source)
    assert outcomes in [frozenset(re.findall(r"\w+", listed)) for listed in lists]


def test_every_state_and_every_outcome_is_documented() -> None:
    [states] = re.findall(r"^States: .*(?:\n.+)*", (_DOCS / "app.md").read_text("utf-8"), re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", states)) == set(JOB_STATES)
    outcomes = re.findall(
        r"^\| `outcome` \| (.*) \|$", (_DOCS / "tables.md").read_text("utf-8"), re.MULTILINE
    )
    assert set(RUN_OUTCOMES) in [set(re.findall(r"`(\w+)`", listed)) for listed in outcomes]


@pytest.mark.parametrize("outcome", RUN_OUTCOMES)
def test_every_outcome_has_its_hooks_or_none(outcome: RunOutcome) -> None:
    assert isinstance(Hooks().told_of(outcome), tuple)


@pytest.mark.parametrize("state", STEP_STATES)
def test_every_state_has_its_mark(state: StepState) -> None:
    assert len(look(state)[0]) == 1


def test_a_word_that_newer_code_has_written_calls_no_hook_and_is_drawn_as_a_question() -> None:
    word: Any = "superseded"
    assert Hooks().told_of(word) == ()
    assert look(word)[0] == "?"


@pytest.mark.parametrize("state", get_args(FinalState))
def test_a_final_state_is_known_by_its_word(state: FinalState) -> None:
    assert final_state(state) == state


@pytest.mark.parametrize("word", ["ready", "lost", "retried", "", None, 7, [], "Failed"])
def test_any_other_word_is_no_final_state(word: object) -> None:
    assert final_state(word) is None
