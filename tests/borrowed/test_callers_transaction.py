"""What Holdfast writes on the caller's connection commits and rolls back with the caller's transaction."""

from contextlib import suppress

import psycopg
import pytest

from borrowed.caller_connections import Caller
from borrowed.notes_table import Note, ask, read, write, write_silently


class Undo(Exception):
    pass


def seen(observer: psycopg.Connection) -> list[str]:
    return [body for (body,) in observer.execute("select body from note order by id")]


def session(observer: psycopg.Connection, pid: object) -> tuple[object, ...] | None:
    return observer.execute(
        "select state, xact_start, backend_xid from pg_stat_activity where pid = %s", [pid]
    ).fetchone()


@pytest.mark.requirement("S2.9")
def test_what_is_written_is_there_when_the_caller_commits(
    caller: Caller, observer: psycopg.Connection
) -> None:
    assert caller.run(write("a")) == [Note(1, "a")]
    assert caller.run(read()) == ["a"]
    assert seen(observer) == []
    caller.commit()
    assert seen(observer) == ["a"]


@pytest.mark.requirement("S2.9")
def test_what_is_written_is_gone_when_the_caller_rolls_back(
    caller: Caller, observer: psycopg.Connection
) -> None:
    caller.run(write("a"))
    assert caller.run(read()) == ["a"]
    caller.rollback()
    assert seen(observer) == []


def test_the_transaction_goes_on_as_it_was(caller: Caller, observer: psycopg.Connection) -> None:
    caller.run(write("a"))
    [(pid,)] = caller.run(ask("select pg_backend_pid()"))
    [settings] = caller.run(ask("select jsonb_object_agg(name, setting)::text from pg_settings"))
    before = session(observer, pid)
    assert before is not None
    assert before[0] == "idle in transaction"
    caller.run(write("b"))
    caller.run(ask("select 1 where false"))
    assert session(observer, pid) == before
    assert caller.run(ask("select jsonb_object_agg(name, setting)::text from pg_settings")) == [settings]


def test_a_savepoint_that_is_released_keeps_what_is_written(
    caller: Caller, observer: psycopg.Connection
) -> None:
    caller.run(write("a"))
    with caller.nested():
        caller.run(write("b"))
    caller.commit()
    assert seen(observer) == ["a", "b"]


def test_a_savepoint_that_is_rolled_back_to_takes_only_its_own_with_it(
    caller: Caller, observer: psycopg.Connection
) -> None:
    caller.run(write("a"))
    with suppress(Undo), caller.nested():
        caller.run(write("b"))
        raise Undo
    caller.run(write("c"))
    caller.commit()
    assert seen(observer) == ["a", "c"]


def test_a_statement_without_rows_answers_with_none(caller: Caller) -> None:
    assert caller.run(write_silently("a")) == []
    assert caller.run(ask("select 1 where false")) == []
    assert caller.run(read()) == ["a"]
