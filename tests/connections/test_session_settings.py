"""Settings that a statement was written for are in force whenever it runs, and never for another client."""

import psycopg
import pytest

from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database
from holdfast.postgres.statement import Statement
from support.pgbouncer import pgbouncer

SORTS = Statement("sorts", "select current_setting('enable_sort')", {}, str)
SESSION = {"enable_sort": "off"}


async def test_every_connection_has_the_settings_it_was_opened_with(dsn: str) -> None:
    async with Database(dsn, session=SESSION) as database:
        assert await database.run(SORTS) == ["off"]
        async with database.transaction() as transaction:
            assert await transaction.run(SORTS) == ["off"]
    with BlockingDatabase(dsn, session=SESSION) as blocking:
        assert blocking.run(SORTS) == ["off"]


@pytest.mark.machine
@pytest.mark.root
async def test_behind_a_transaction_pooler_they_last_for_a_statement_and_reach_no_other_client(
    dsn: str,
) -> None:
    with pgbouncer(dsn, "transaction", pool_size=1) as front:
        async with Database(front, session=SESSION) as database:
            assert await database.run(SORTS) == ["off"]
            with psycopg.connect(front, prepare_threshold=None) as stranger:
                assert stranger.execute(SORTS.text.encode()).fetchone() == ("on",)
        with BlockingDatabase(front, session=SESSION) as blocking:
            assert blocking.run(SORTS) == ["off"]
