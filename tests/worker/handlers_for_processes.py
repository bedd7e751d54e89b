"""Handlers that are run in child processes. Importable there, so at the top of a module."""

import asyncio
import ctypes
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast.worker.context import Context
from holdfast.worker.current_run import current_run
from holdfast.worker.handler_requests import Cancel, Fail, RetryLater, Snooze


@dataclass
class Order:
    number: int
    lines: list[str]


class CardRefused(Exception):
    """Cannot be made again from its message alone."""

    def __init__(self, *, customer: int, reason: str) -> None:
        self.customer = customer
        self.reason = reason
        super().__init__(f"customer {customer}: {reason}")


class HoldsALock(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


class Unspeakable(Exception):
    def __init__(self) -> None:
        super().__init__(threading.Lock())

    def __str__(self) -> str:
        return "it holds what cannot travel"


class Decorated:
    """What a decorator leaves in the place of a function."""

    def __init__(self, function: Any) -> None:
        self.function = function


def add(left: int, right: int) -> int:
    return left + right


async def add_later(left: int, right: int) -> int:
    await asyncio.sleep(0)
    return left + right


def where() -> int:
    return os.getpid()


def parent_and_group() -> tuple[int, int, int]:
    return os.getpid(), os.getpgrp(), os.getsid(0)


def double(order: Order) -> Order:
    return Order(order.number * 2, order.lines * 2)


@Decorated
def decorated() -> str:
    return "found"


def refuse(customer: int) -> None:
    try:
        int("no number")
    except ValueError as error:
        raise CardRefused(customer=customer, reason="expired") from error


def with_a_lock() -> None:
    raise HoldsALock("no way")


def unspeakable() -> None:
    raise Unspeakable


def open_a_missing_file() -> None:
    Path("/nowhere/to/be/found").read_text("utf-8")


def several() -> None:
    raise ExceptionGroup("two", [ValueError("one"), KeyError("other")])


def local_error() -> None:
    class Local(Exception):
        pass

    raise Local("from inside")


def error_of_a_library_that_only_the_child_knows() -> None:
    import wave

    raise wave.Error("no sound")


async def cancels_itself() -> None:
    raise asyncio.CancelledError


def unpicklable() -> Any:
    return threading.Lock()


def huge() -> bytes:
    return bytes(64 * 1024 * 1024)


def leave(code: int) -> None:
    os._exit(code)


def leave_politely(code: int) -> None:
    sys.exit(code)


def shoot(number: int) -> None:
    os.kill(os.getpid(), number)


def crash() -> None:
    ctypes.string_at(0)


def hog_the_interpreter(started: str) -> None:
    """One call of C code that holds the GIL for hours."""
    _say(started, str(os.getpid()))
    re.match(r"(a+)+$", "a" * 64 + "b")


def ignore_signals(started: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _say(started, str(os.getpid()))
    while True:
        time.sleep(60)


def start_others(started: str) -> None:
    """Starts two processes: one by exec, one by fork."""
    executed = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    forked = os.fork()
    if forked == 0:
        while True:
            time.sleep(60)
    _say(started, f"{os.getpid()} {executed.pid} {forked}")
    while True:
        time.sleep(60)


def start_others_and_die(started: str) -> None:
    executed = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    forked = os.fork()
    if forked == 0:
        while True:
            time.sleep(60)
    _say(started, f"{executed.pid} {forked}")
    os._exit(7)


def terminate_a_fork() -> int:
    forked = os.fork()
    if forked == 0:
        while True:
            time.sleep(60)
    os.kill(forked, signal.SIGTERM)
    return os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1])


def wait_until_cancelled(context: Context, started: str) -> None:
    context.state["begun"] = True
    _say(started, str(os.getpid()))
    while not context.is_cancelled:
        time.sleep(0.01)
    context.state["cleaned"] = True


async def clean_up_when_cancelled(context: Context, started: str) -> None:
    _say(started, str(os.getpid()))
    try:
        await asyncio.sleep(600)
    finally:
        context.state["cleaned"] = True


def take(size: int) -> int:
    return len(bytearray(size))


def take_bit_by_bit() -> None:
    kept = []
    while True:
        kept.append(bytearray(100_000))


def facts(context: Context) -> dict[str, Any]:
    assert current_run.get().run == context.fencing_token
    return {"job": context.job, "attempt": context.attempt, "token": context.fencing_token}


def count_up(context: Context) -> int:
    count: int = context.state.get("count", 0) + 1
    context.state["count"] = count
    if count < 3:
        raise ValueError("not yet")
    return count


def unstorable_state(context: Context, size: int | None, error: str | None = None) -> str:
    context.state.clear()
    context.state["what"] = threading.Lock() if size is None else "x" * size
    if error is not None:
        raise ValueError(error)
    return "done"


def around_a_generator() -> Any:
    return (number for number in range(3))


async def _counted() -> AsyncIterator[int]:
    yield 1


def around_an_async_generator() -> Any:
    return _counted()


def say_progress(context: Context, times: int) -> None:
    for n in range(1, times + 1):
        context.progress(n / times, note=f"{n} of {times}", row=n)


def use_a_transaction(context: Context) -> None:
    with context.transaction():
        pass


def ask(what: str) -> None:
    match what:
        case "snooze":
            raise Snooze("5m")
        case "retry":
            raise RetryLater(timedelta(hours=1), "busy")
        case "cancel":
            raise Cancel("sold out")
        case _:
            raise Fail("no such customer")


def log_something(context: Context) -> None:
    context.log.info("hello from %s", "afar")
    try:
        int("x")
    except ValueError:
        logging.getLogger("shop").exception("bad number")
    logging.getLogger("shop").debug("not wanted")


def log_lines(context: Context, number: int) -> None:
    for line in range(number):
        context.log.info("line %d", line)


def meet(mine: str, other: str) -> bool:
    """Ends only if both run at once."""
    Path(mine).touch()
    while not Path(other).exists():
        time.sleep(0.01)
    return True


def leave_a_thread_behind(context: Context, late: str) -> None:
    def go_on() -> None:
        _next_run_began.wait(30)
        context.log.info("late")
        context.progress(1.0, note="late")
        _say(late, "said")

    threading.Thread(target=go_on, daemon=True).start()


def wait_for(context: Context, place: str) -> None:
    """Until another thread has written there."""
    _next_run_began.set()
    while not Path(place).exists():
        time.sleep(0.01)


_next_run_began = threading.Event()


def close_everything() -> None:
    os.closerange(3, 1000)


def write_to_stdout(text: str) -> None:
    sys.stdout.write(text)


def _say(place: str, text: str) -> None:
    """Whole or not at all."""
    Path(f"{place}.new").write_text(text, "utf-8")
    Path(f"{place}.new").rename(place)


def burn(seconds: float, starts: str) -> int:
    """Uses this much CPU time, and notes each of its starts."""
    with Path(starts).open("a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return os.getpid()


def hold(started: str, until: str) -> None:
    """Runs until a file exists."""
    _say(started, str(os.getpid()))
    while not Path(until).exists():
        time.sleep(0.01)
