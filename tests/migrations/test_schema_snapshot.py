"""The committed snapshot of the schema is what the migrations make."""

import pytest

from holdfast.postgres.dsn import Dsn
from holdfast.postgres.migrations.runner import migrate, own_connection
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged
from migrations.schema_dumps import COMMAND, SNAPSHOT, dump

SNAPSHOT_MAJOR = 18  # other majors write the same tables in other words


@pytest.mark.requirement("S2.6")
def test_the_committed_snapshot_is_what_the_migrations_make(dsn: str) -> None:
    with own_connection(Dsn.parse(dsn)) as conn:
        if conn.info.server_version // 10000 != SNAPSHOT_MAJOR:
            pytest.skip(f"the snapshot is that of Postgres {SNAPSHOT_MAJOR}")
        migrate(conn, Schema(), packaged())
    assert dump(dsn, Schema()) == SNAPSHOT.read_text(), f"{SNAPSHOT.name} is out of date: run {COMMAND}"


def test_the_packaged_migrations_mention_no_schema_but_the_one_they_are_given(dsn: str) -> None:
    plain, word = Schema("zebra"), Schema("user")  # a word of SQL works only where the name is quoted
    with own_connection(Dsn.parse(dsn)) as conn:
        migrate(conn, plain, packaged())
        migrate(conn, word, packaged())
    as_plain = dump(dsn, word).replace('"user"', "zebra").replace("'user.", "'zebra.")
    assert as_plain == dump(dsn, plain).replace('"zebra"', "zebra")
