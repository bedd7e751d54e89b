"""The page about looking at jobs: its examples run, and it names everything that there is."""

import dataclasses
import re
from typing import get_args

import pytest

from holdfast.domain.filter_parser import parse_filter
from holdfast.domain.job_filter import FILTER_STATES
from holdfast.domain.parameters import KindParameter
from holdfast.insights.audit import Audit, AuditEntry, AuditPage
from holdfast.insights.diagnosis import Finding, FindingCode
from holdfast.insights.doctor import DoctorReport
from holdfast.insights.failure_records import DeadLetters, FailureDetail, FailureGroup, FailurePage
from holdfast.insights.failures import Failures
from holdfast.insights.fsck import WORDS, Damage, FsckProgress, FsckReport
from holdfast.insights.harmful_settings import HARMFUL
from holdfast.insights.job_records import JobDetail, JobPage, JobRun, JobSummary, Reason, RunError
from holdfast.insights.jobs import Jobs
from holdfast.insights.kind_records import KindRecord
from holdfast.insights.kinds import Kinds
from holdfast.insights.log_records import LogLine, LogPage
from holdfast.insights.operation_steps import Operation, Preview
from holdfast.insights.operations import Operations
from holdfast.insights.overview_records import (
    Attention,
    AttentionReason,
    NextFire,
    Overview,
    StateCount,
    States,
    Throughput,
)
from holdfast.insights.stats_records import FigurePoint, Figures, NamedFigures, Spread, Stats
from holdfast.insights.tail_records import RunEnded, RunLogged, RunStarted, TailPage
from holdfast.insights.workers import RunningJob, WorkerRecord, Workers, WorkerState
from holdfast.storage.jobs import Enqueued
from support.doc_examples import DOCS, run_page

PAGE = "reference/jobs.md"


def test_every_example_runs_and_prints_what_the_page_says(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page(PAGE, monkeypatch)


def test_the_example_about_log_lines_runs(
    dsn: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    with caplog.at_level("INFO"):  # basicConfig leaves a logger alone that has handlers, as pytest's has
        run_page("how-to/keep-logs.md", monkeypatch)


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


def test_every_example_about_doctor_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page("reference/doctor.md", monkeypatch)


def test_every_finding_of_doctor_is_named() -> None:
    text = (DOCS / "reference/doctor.md").read_text("utf-8")
    named = set(re.findall(r"`(\w+)`", text))
    fields = {field.name for record in (DoctorReport, Finding) for field in dataclasses.fields(record)}
    assert fields | {*get_args(FindingCode)} | {harm.name for harm in HARMFUL} <= named


def test_every_example_about_fsck_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page("reference/fsck.md", monkeypatch)


def test_every_damage_is_named_with_its_words() -> None:
    text = (DOCS / "reference/fsck.md").read_text("utf-8")
    for code, (sentence, remedy) in WORDS.items():
        assert f"| `{code}` | {sentence} | {remedy} |" in text
    named = set(re.findall(r"`(\w+)`", text))
    records = (FsckReport, Damage, FsckProgress)
    assert {field.name for record in records for field in dataclasses.fields(record)} <= named


def test_every_example_about_statistics_runs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page("reference/stats.md", monkeypatch)


def test_every_field_of_statistics_and_reason_for_attention_is_named() -> None:
    named = set(re.findall(r"`(\w+)", (DOCS / "reference/stats.md").read_text("utf-8")))
    records = (Stats, Figures, Spread, FigurePoint, NamedFigures, Overview, States, StateCount, Throughput)
    fields = {
        field.name for record in (*records, Attention, NextFire) for field in dataclasses.fields(record)
    }
    assert fields | {*get_args(AttentionReason)} | {"ended", "succeeded", "failure_share"} <= named


def test_every_verb_field_state_and_reason_is_named() -> None:
    text = (DOCS / PAGE).read_text("utf-8")
    named = set(re.findall(r"`(?:app\.jobs\.)?(\w+)", text))
    verbs = {name.removesuffix("_sync") for name in vars(Jobs) if not name.startswith("_")}
    shown = (JobPage, JobSummary, JobDetail, JobRun, RunError, LogPage, LogLine)
    told = (TailPage, RunStarted, RunLogged, RunEnded)
    fields = {field.name for record in (*shown, *told) for field in dataclasses.fields(record)}
    assert verbs | fields | {*get_args(Reason)} | {*FILTER_STATES} <= named


def test_every_term_of_the_table_can_be_read() -> None:
    _, _, table = (DOCS / PAGE).read_text("utf-8").partition("## Filters")
    terms = re.findall(r"`([\w.]+:[^`]+)`", table.partition("## `JobPage`")[0])
    assert len(terms) > 15
    for term in terms:
        assert parse_filter(term)
