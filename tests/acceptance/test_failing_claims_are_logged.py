"""A worker whose claims fail says so once for each reason, and says when it is over."""

import logging

import pytest

from acceptance.books import Books
from acceptance.in_process_workers import working
from holdfast import App
from support.waiting import until


async def test_a_claim_that_keeps_failing_is_warned_of_once_for_each_reason_and_told_when_it_works(
    dsn: str, books: Books, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")

    def said(level: int, words: str) -> list[str]:
        return [r.getMessage() for r in caplog.records if r.levelno == level and words in r.getMessage()]

    async with App(dsn) as app:

        @app.job
        async def note() -> None:
            pass

        async with working(app):
            books.run("alter table holdfast.ready rename to mislaid")
            await until(lambda: said(logging.WARNING, "claiming jobs fails"), "the claim fails")
            await until(lambda: said(logging.WARNING, "chore promote fails"), "the chore fails")
            books.run("alter table holdfast.mislaid rename to ready")
            handle = await note.enqueue()
            await handle.result("20s")
            await until(lambda: said(logging.WARNING, "claiming jobs works again"), "it is over")
    [warning] = said(logging.WARNING, "claiming jobs fails")
    assert "SchemaNotFound" in warning
