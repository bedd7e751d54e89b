"""Handlers that log, in a module that child processes can import."""

import logging

from holdfast import Context

library = logging.getLogger("some.library")


def say(ctx: Context, words: list[str], *, is_failing: bool = False) -> None:
    for number, word in enumerate(words):
        (ctx.log if number % 2 else library).info("%s", word)
    if is_failing:
        raise ValueError("no more words")
