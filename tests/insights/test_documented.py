"""The page about looking at jobs: its examples run, and it names everything that there is."""

import dataclasses
import re
from typing import get_args

import pytest

from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job_filter import FILTER_STATES
from holdfast.domain.parameters import KindParameter
from holdfast.insights.audit import Audit, AuditEntry, AuditPage
from holdfast.insights.explanation import Reason
from holdfast.insights.failure_records import DeadLetters, FailureDetail, FailureGroup, FailurePage
from holdfast.insights.failures import Failures
from holdfast.insights.job_records import JobDetail, JobPage, JobRun, JobSummary, RunError
from holdfast.insights.jobs import Jobs
from holdfast.insights.kind_records import KindRecord
from holdfast.insights.kinds import Kinds
from holdfast.insights.operation_steps import Operation, Preview
from holdfast.insights.operations import Operations
from holdfast.insights.workers import RunningJob, WorkerRecord, Workers, WorkerState
from holdfast.storage.jobs import Enqueued
from support.doc_examples import DOCS, run_page

PAGE = "reference/jobs.md"


def test_every_example_runs_and_prints_what_the_page_says(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page(PAGE, monkeypatch)


def test_every_example_about_operations_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page("reference/operations.md", monkeypatch)


def test_every_verb_and_field_of_operations_is_named() -> None:
    named = set(
        re.findall(r"`(?:app\.operations\.)?(\w+)", (DOCS / "reference/operations.md").read_text("utf-8"))
    )
    verbs = {name.removesuffix("_sync") for name in vars(Operations) if not name.startswith("_")}
    fields = {field.name for record in (Operation, Preview) for field in dataclasses.fields(record)}
    assert verbs | fields <= named


def test_every_example_about_kinds_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page("reference/kinds.md", monkeypatch)


def test_every_verb_and_field_of_kinds_is_named() -> None:
    named = set(re.findall(r"`(?:app\.kinds\.)?(\w+)", (DOCS / "reference/kinds.md").read_text("utf-8")))
    verbs = {name.removesuffix("_sync") for name in vars(Kinds) if not name.startswith("_")}
    fields = {field.name for record in (KindRecord, KindParameter) for field in dataclasses.fields(record)}
    assert verbs | fields | {*Enqueued._fields} <= named


def test_every_example_about_workers_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page("reference/workers.md", monkeypatch)


def test_every_verb_and_field_of_workers_is_named() -> None:
    named = set(re.findall(r"`(?:app\.workers\.)?(\w+)", (DOCS / "reference/workers.md").read_text("utf-8")))
    verbs = {name.removesuffix("_sync") for name in vars(Workers) if not name.startswith("_")}
    fields = {field.name for record in (WorkerRecord, RunningJob) for field in dataclasses.fields(record)}
    assert verbs | fields | {*get_args(WorkerState)} <= named


def test_every_example_about_the_audit_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page("reference/audit.md", monkeypatch)


def test_every_verb_and_field_of_the_audit_is_named() -> None:
    named = set(re.findall(r"`(?:app\.audit\.)?(\w+)", (DOCS / "reference/audit.md").read_text("utf-8")))
    verbs = {name.removesuffix("_sync") for name in vars(Audit) if not name.startswith("_")}
    fields = {field.name for record in (AuditPage, AuditEntry) for field in dataclasses.fields(record)}
    assert verbs | fields <= named


def test_every_example_about_failures_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page("reference/failures.md", monkeypatch)


def test_every_verb_and_field_of_failures_is_named() -> None:
    text = (DOCS / "reference/failures.md").read_text("utf-8")
    named = set(re.findall(r"`(?:app\.failures\.)?(\w+)", text))
    verbs = {name.removesuffix("_sync") for name in vars(Failures) if not name.startswith("_")}
    records = (FailurePage, FailureGroup, FailureDetail, DeadLetters)
    fields = {field.name for record in records for field in dataclasses.fields(record)}
    assert verbs | fields <= named


def test_every_verb_field_state_and_reason_is_named() -> None:
    text = (DOCS / PAGE).read_text("utf-8")
    named = set(re.findall(r"`(?:app\.jobs\.)?(\w+)", text))
    verbs = {name.removesuffix("_sync") for name in vars(Jobs) if not name.startswith("_")}
    records = (JobPage, JobSummary, JobDetail, JobRun, RunError)
    fields = {field.name for record in records for field in dataclasses.fields(record)}
    assert verbs | fields | {*get_args(Reason)} | {*FILTER_STATES} <= named


def test_every_term_of_the_table_can_be_read() -> None:
    _, _, table = (DOCS / PAGE).read_text("utf-8").partition("## Filters")
    terms = re.findall(r"`([\w.]+:[^`]+)`", table.partition("## `JobPage`")[0])
    assert len(terms) > 15
    for term in terms:
        assert parse_filter(term)
