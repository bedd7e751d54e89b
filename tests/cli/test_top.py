"""`holdfast top`: what it shows, and that it leaves the terminal as it was, however it ends."""

import asyncio
import io
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from threading import Semaphore

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from cli.terminal import Terminal, terminal
from holdfast import App
from holdfast.cli import main
from holdfast.cli.keyboard import _told_apart
from holdfast.cli.shared_options import opened
from holdfast.cli.top import ask
from holdfast.cli.top_panels import PANELS, Snapshot, shares
from holdfast.cli.top_screen import View, _Asker, frame
from holdfast.domain.limits import LimitSpec
from holdfast.errors import DataRefused
from holdfast.insights.overview_records import Attention
from holdfast.postgres.schema import Schema
from holdfast.storage.limit_rules import declare
from support.engine import SCHEMA, Engine
from support.proxy import Proxy

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def left(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two queues, one of them paused, and nobody who serves them."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)

    async def leave() -> None:
        async with App(dsn) as app:

            @app.job(queue="mail")
            async def welcome(user: int) -> None: ...

            @app.job(queue="payments")
            async def charge(order: int) -> None: ...

            await app.enqueue_many(welcome.call(n) for n in range(3))
            await app.enqueue_many(charge.call(n) for n in range(7))
            await app.queues.pause("mail", note="mailboxes full")

    asyncio.run(leave())
    return dsn


@pytest.fixture
def top(left: str) -> Iterator[Terminal]:
    with terminal("top", "--interval", "200ms", columns=100, lines=40) as shown:
        shown.read_until("q quit")
        yield shown


def screen_of(shown: Terminal) -> list[str]:
    """The lines of the frame that was drawn last."""
    return [line.rstrip() for line in shown.text.rsplit("holdfast top", 1)[1].replace("\r", "").split("\n")]


def test_one_view_is_plain_when_it_is_piped(left: str, capsys: Captured) -> None:
    for arguments in (["top", "--once"], ["top"]):
        assert main(arguments) == 0
        out, err = capsys.readouterr()
        assert ("\x1b" in out, err) == (False, "")
        first, *more = out.splitlines()
        assert first.startswith("ready 10  scheduled 0  running 0  waiting 0  failed 0  in ")
        assert any(line.startswith("! ") for line in more), "nobody serves the queues"
        heads = more.index(next(line for line in more if line.startswith("QUEUE ")))
        assert more[heads + 1].split()[:2] == ["payments", "7"]
        assert more[heads + 2].split()[:2] == ["mail", "3"]
        assert "‖ paused: mailboxes full" in more[heads + 2]
        assert out.count("nothing is running") == 1
        assert "no worker is running" in more[-1]


def test_a_closed_limit_is_among_the_warnings(left: str, capsys: Captured) -> None:
    with Engine.on(left, now=None) as engine:
        engine.hold(declare(SCHEMA, {"stripe": LimitSpec(total=3)}))
    assert main(["limits", "close", "stripe", "--reason", "billing is down"]) == 0
    assert main(["top", "--once"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("! The limit"))
    assert line.endswith(' ago ("billing is down"); no job waits.')


def test_q_quits_and_gives_the_terminal_back(top: Terminal) -> None:
    assert "\x1b[?1049h" in top.written, "it has the whole screen"
    assert not top.is_as_before
    top.type("q")
    top.read_to_the_end()
    assert top.process.returncode == 0
    assert top.is_as_before


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 128 + 15), (signal.SIGHUP, 128 + 1)]
)
def test_a_signal_gives_the_terminal_back_too(top: Terminal, number: signal.Signals, code: int) -> None:
    top.process.send_signal(number)
    top.read_to_the_end()
    assert top.process.returncode == code
    assert top.is_as_before
    assert "Traceback" not in top.text


def test_keys_choose_a_panel_and_its_order_and_pause(top: Terminal) -> None:
    assert "queues by waiting" in top.text
    top.type("\x1b[C")
    top.read_until("queues by oldest")
    top.type("\x1b[D\x1b[D")
    top.read_until("queues by name")
    top.type("\t\x1b[C")
    top.read_until("running by newest")
    top.type("\x1b[Z\x1b[C")
    top.forget()
    top.read_until("queues by waiting")
    top.type("p")
    top.read_until("paused: p goes on")
    top.forget()
    top.type("p")
    top.read_until("every 200ms")


def test_it_follows_the_size_of_the_window(top: Terminal) -> None:
    top.forget()
    top.resize(60, 14)
    top.read_until("q quit")
    top.forget()
    top.read_until("q quit")
    lines = screen_of(top)
    assert max(map(len, lines)) <= 60
    assert len(lines) <= 14
    assert "running by longest" not in top.text, "a low screen shows the chosen panel"
    assert "queues by waiting" in top.text


@pytest.mark.parametrize(
    ("lines", "shown", "last"), [(60, 12, "! trouble 11"), (24, 3, "! and 10 more"), (26, 5, "! and 8 more")]
)
def test_as_many_warnings_are_shown_as_fit_the_worst_first(
    left: str, lines: int, shown: int, last: str
) -> None:
    with opened(left, Schema()) as app:
        snapshot = ask(app)
    troubles = tuple(Attention("no_worker", None, f"trouble {n}", "") for n in range(12))
    snapshot = replace(snapshot, overview=replace(snapshot.overview, attention=troubles))
    screen = Console(width=100, height=lines, file=io.StringIO())
    screen.print(frame(View("here", timedelta(seconds=2), snapshot), screen))
    assert isinstance(screen.file, io.StringIO)
    drawn = screen.file.getvalue().splitlines()
    told = [line.rstrip() for line in drawn if line.startswith("! ")]
    assert len(drawn) <= lines
    assert (len(told), told[0], told[-1]) == (shown, "! trouble 0", last)


def test_ctrl_z_gives_the_terminal_to_the_shell_until_it_goes_on(top: Terminal) -> None:
    top.process.send_signal(signal.SIGTSTP)
    while os.waitid(os.P_PID, top.process.pid, os.WSTOPPED | os.WNOHANG) is None:
        top.read_for(0.1)
    top.read_for(0.1)
    assert top.is_as_before
    top.forget()
    top.process.send_signal(signal.SIGCONT)
    top.read_until("q quit")
    assert top.written.count("\x1b[?1049h") == 2, "it has the whole screen again"
    top.type("q")
    top.read_to_the_end()
    assert top.process.returncode == 0
    assert top.is_as_before


def test_an_error_of_the_database_is_shown_until_it_is_over(top: Terminal, left: str) -> None:
    with psycopg.connect(left, autocommit=True) as conn:
        conn.execute("alter table holdfast.worker rename to gone")
        top.read_until("trying again: this database lacks what Holdfast needs")
        conn.execute("alter table holdfast.gone rename to worker")
    top.forget()
    _read_until_well(top)
    top.read_until("payments")


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (RuntimeError("no\nsuch \x1b[31mthing"), "trying again: RuntimeError: no such \\x1b[31mthing"),
        (ZeroDivisionError(), "trying again: ZeroDivisionError"),
        (DataRefused("value out of range", sqlstate="22003"), "trying again: value out of range"),
    ],
)
def test_whatever_error_a_question_meets_is_shown_and_it_is_asked_again(
    left: str, error: Exception, shown: str
) -> None:
    with opened(left, Schema()) as app:
        snapshot = ask(app)
    answers: list[Exception | Snapshot] = [error, snapshot]
    woken, go_on = Semaphore(0), Semaphore(0)

    def answer() -> Snapshot:
        go_on.acquire()
        match answers.pop(0):
            case Exception() as problem:
                raise problem
            case found:
                return found

    asker = _Asker(answer, timedelta(0), woken.release)
    asker.start()
    go_on.release()
    assert woken.acquire(timeout=60)
    assert asker.latest(snapshot) == (snapshot, shown)
    go_on.release()
    assert woken.acquire(timeout=60)
    assert asker.latest(snapshot) == (snapshot, None)
    answers.append(snapshot)
    go_on.release()
    asker.leave()


async def test_it_outlives_an_outage_of_the_database(left: str) -> None:
    async with Proxy.before(left) as proxy:
        with terminal("top", "--interval", "200ms", "--dsn", proxy.dsn(left)) as shown:
            await asyncio.to_thread(shown.read_until, "q quit")
            proxy.refuse()
            proxy.reset()
            await asyncio.to_thread(shown.read_until, "trying again")
            assert "reconnecting" not in shown.text, "the log does not tear the screen"
            shown.forget()
            await asyncio.to_thread(shown.read_until, "payments")  # what was known stays
            proxy.pass_through()
            shown.forget()
            await asyncio.to_thread(_read_until_well, shown)
            shown.type("q")
            await asyncio.to_thread(shown.read_to_the_end)
            assert shown.process.returncode == 0
            assert shown.is_as_before


def _read_until_well(shown: Terminal) -> None:
    shown.read_until("q quit")
    while "trying again" in shown.text:
        shown.forget()
        shown.read_until("q quit")


async def test_keys_are_heard_while_the_database_says_nothing(left: str) -> None:
    async with Proxy.before(left) as proxy:
        with terminal("top", "--interval", "200ms", "--dsn", proxy.dsn(left)) as shown:
            await asyncio.to_thread(shown.read_until, "q quit")
            proxy.black_hole()
            shown.type("p")
            await asyncio.to_thread(shown.read_until, "paused: p goes on")
            shown.type("q")
            await asyncio.to_thread(shown.read_to_the_end)
            assert shown.process.returncode == 0
            assert shown.is_as_before


def test_a_database_that_is_not_there_is_an_error_and_no_empty_screen(capsys: Captured) -> None:
    with terminal("top", "--dsn", "postgresql://nobody@127.0.0.1:1/shop") as shown:
        shown.read_to_the_end()
    assert shown.process.returncode == 1
    assert "\x1b[?1049h" not in shown.written
    assert "holdfast: cannot connect to 127.0.0.1:1/shop" in shown.text


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=6).flatmap(
        lambda wanted: st.tuples(st.just(wanted), st.integers(0, len(wanted) - 1), st.integers(0, 100))
    )
)
def test_panels_share_the_room_and_none_gets_more_than_it_wants(
    example: tuple[list[int], int, int],
) -> None:
    wanted, chosen, room = example
    given_ = shares(wanted, room, chosen=chosen)
    assert all(min(1, want) <= got <= want for got, want in zip(given_, wanted, strict=True))
    least = sum(min(1, want) for want in wanted)
    assert sum(given_) == max(min(sum(wanted), room), least)
    if given_[chosen] < wanted[chosen]:
        assert all(got <= 1 for n, got in enumerate(given_) if n != chosen), "the chosen one comes first"


def test_keys_that_mean_nothing_are_ignored_and_several_are_told_apart() -> None:
    assert list(_told_apart(b"xq\x1b[C\x1b[Z?")) == ["quit", "next order", "previous panel"]


def test_every_panel_has_orders_and_a_sentence_for_nothing() -> None:
    assert [panel.name for panel in PANELS] == ["queues", "running", "failures", "workers"]
    assert all(panel.orders and panel.empty for panel in PANELS)


@pytest.mark.parametrize("interval", ["100ms", "soon", "0s"])
def test_an_interval_that_would_load_the_database_is_refused(interval: str, capsys: Captured) -> None:
    assert main(["top", "--interval", interval, "--dsn", "postgresql://localhost/shop"]) == 2
    assert "--interval" in capsys.readouterr().err
