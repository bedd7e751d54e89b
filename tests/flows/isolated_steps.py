"""Steps that run in child processes, which find them here by their names."""

import os
import time


def where(number: int, plus: int = 0) -> list[int]:
    return [os.getpid(), number + plus]


def die(once: str) -> str:
    """The first time."""
    try:
        os.close(os.open(once, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return "survived"
    os._exit(7)


def sleep_for_ever(note: str) -> None:
    with open(note, "w", encoding="utf-8") as file:  # noqa: PTH123  # a few bytes
        file.write(str(os.getpid()))
    time.sleep(600)


def unnamed(*numbers: int) -> int:
    return sum(numbers)
