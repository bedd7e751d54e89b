"""`holdfast workers`: what operators read of workers."""

import json

import psycopg
import pytest

from holdfast.cli import main

Captured = pytest.CaptureFixture[str]

LIST = """\
ID  STATE          HOST   PID   VERSION  SLOTS  BEAT        QUEUES         KINDS  RUNS
1   ● live, leads  web-1  4711  1.2.3    2/100  2h ago      mail, default  2      7 for 5h 30m (charge), 8 for 3h (send)
2   ◌ silent       web-2  4712  1.2.3    0/10   3h ago      mail           1
3   ✕ lost         web-3  4713  1.2.3    0/10   5h 30m ago  mail           1
"""  # noqa: E501  # as wide as it is printed
SHOWN = """\
worker 1  ● live, leads
  process   4711 on web-1, Holdfast 1.2.3
  started   {started} UTC, 6h 30m ago
  beat      2h ago; it counts as lost if none comes within 1h 27m
  slots     2 of 100 are used
  queues    mail, default
  kinds     charge, send

JOB  KIND    TRY  FOR
7    charge  3    5h 30m  asked to stop
8    send    1    3h
"""


@pytest.fixture
def left(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Most of a minute of room before the next whole one, for what the test itself takes."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "insert into holdfast.worker"
            " (host, pid, version, queues, kinds, slots, started_at, beat_at, expires_at, lost_at)"
            " select host, pid, '1.2.3', queues::text[], kinds::text[], slots, now() - interval '6h 30m 5s',"
            " now() - beat, now() + rest, now() - lost"
            " from (values ('web-1', 4711, '{mail,default}', '{charge,send}', 100,"
            " interval '2h 5s', interval '1h 27m 55s', null::interval),"
            " ('web-2', 4712, '{mail}', '{send}', 10, '3h 5s', '-1h -5s', null),"
            " ('web-3', 4713, '{mail}', '{send}', 10, '5h 30m 5s', '-5h', '4h 50m 5s'))"
            " as w (host, pid, queues, kinds, slots, beat, rest, lost)"
        )
        connection.execute("insert into holdfast.leader (worker, term, expires_at) values (1, 1, 'infinity')")
        connection.execute(
            "insert into holdfast.lease"
            " (worker, job, run, started_at, timeout_at, attempt, kind, cancel_requested_at)"
            " values (1, 7, 1, now() - interval '5h 30m 5s', now(), 3, 'charge', now()),"
            " (1, 8, 2, now() - interval '3h 5s', now(), 1, 'send', null)"
        )
    return dsn


def told(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main(["workers", *arguments]) == code
    return capsys.readouterr().out


def test_workers_are_listed(left: str, capsys: Captured) -> None:
    assert told(capsys, "list") == LIST
    first, *_ = json.loads(told(capsys, "list", "--json"))
    assert (first["id"], first["state"], first["is_leader"], first["used"]) == (1, "live", True, 2)
    assert [run["job"] for run in first["running"]] == [7, 8]


def test_a_worker_is_shown_with_what_it_runs(left: str, capsys: Captured) -> None:
    started = json.loads(told(capsys, "show", "1", "--json"))["started_at"]
    assert told(capsys, "show", "1") == SHOWN.format(started=started[:19].replace("T", " "))


def test_a_silent_and_a_lost_worker_say_what_happens_to_their_jobs(left: str, capsys: Captured) -> None:
    assert "3h ago, overdue for 1h: the leader will give its jobs to others" in told(capsys, "show", "2")
    assert "it was given up 4h 50m ago, and others run its jobs" in told(capsys, "show", "3")


def test_a_worker_that_does_not_exist_is_exit_code_3(left: str, capsys: Captured) -> None:
    assert main(["workers", "show", "99"]) == 3
    assert "there is no worker 99" in capsys.readouterr().err
    assert main(["workers", "show", "x"]) == 2
    assert main(["workers", "show", "99999999999999999999"]) == 2


def test_no_worker_at_all_is_said(dsn: str, capsys: Captured) -> None:
    assert (
        told(capsys, "list", "--dsn", dsn) == "no worker is running: start one with: holdfast worker -A …\n"
    )
