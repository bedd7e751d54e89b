"""A job that is stored as JSON, to be enqueued later, is the same job when it is read again."""

import json
from dataclasses import fields
from datetime import UTC, datetime, timedelta

from msgspec import structs

from holdfast.domain.backoff import Fixed
from holdfast.domain.job import NewJob, Policy
from holdfast.domain.limit_use import LimitUse
from holdfast.storage.stored_jobs import job_of, job_text

WHOLE = NewJob(
    Policy(
        kind="mail",
        queue="post",
        priority=2,
        max_attempts=3,
        backoff=Fixed(timedelta(seconds=7)),
        timeout=timedelta(minutes=5),
        keep=timedelta(),
        on_lost="fail",
        tags=("vip", "ümlaut"),
        origin='{"headers": {"trace": "1"}}',
    ),
    args='{"n": 12345678901234567890, "text": "a\\"b"}',
    run_at=datetime(2026, 1, 31, 9, tzinfo=UTC),
    deadline_at=datetime(2026, 2, 1, tzinfo=UTC),
    unique_key="one",
    limits=(LimitUse("stripe", "acme", 350),),
)


def test_every_field_is_stored_and_read_again() -> None:
    assert job_of(job_text(WHOLE)) == WHOLE
    later = NewJob(Policy("mail"), delay=timedelta(seconds=1.5), deadline_in=timedelta(hours=2))
    assert job_of(job_text(later)) == later
    minute = timedelta(minutes=1)
    put_off = NewJob(Policy("mail"), unique_key="a", debounce=timedelta(seconds=5), max_wait=minute)
    assert job_of(job_text(put_off)) == put_off
    rare = NewJob(Policy("mail"), unique_key="a", unique_for=minute)
    assert job_of(job_text(rare)) == rare


def test_the_text_has_all_fields_that_there_are() -> None:
    stored = json.loads(job_text(WHOLE))
    assert set(stored) == {field.name for field in structs.fields(NewJob)}
    assert set(stored["policy"]) == {field.name for field in fields(Policy)}
    unset = [name for name in stored if stored[name] == getattr(NewJob(Policy("a")), name, None)]
    assert unset == ["delay", "deadline_in", "debounce", "max_wait", "unique_for"], "the others have a value"
