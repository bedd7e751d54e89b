"""Migration 0005 changes the type of a column under a view: nothing in it is lost, nor who may read it."""

import psycopg

from holdfast.postgres.migrations.runner import migrate
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import packaged

EARLIER = Schema("earlier")
ALL = "select * from earlier.jobs"
RIGHTS = "select relowner, relacl::text from pg_class where oid = 'earlier.jobs'::regclass"


def test_jobs_and_rights_from_before_are_there_after_it(dsn: str) -> None:
    everything = packaged()
    with psycopg.connect(dsn, autocommit=True) as connection:
        migrate(connection, EARLIER, everything[:4])
        connection.execute("""select earlier.enqueue('mail', args => '{"to": "me", "n": [1, 2.50]}')""")
        connection.execute("grant select on earlier.jobs to public")
        before, rights = (connection.execute(asked).fetchall() for asked in (ALL, RIGHTS))
        assert "=r/" in rights[0][1]
        migrate(connection, EARLIER, everything)
        assert [connection.execute(asked).fetchall() for asked in (ALL, RIGHTS)] == [before, rights]
        [(shown, args)] = connection.execute("select pg_typeof(args)::text, args from earlier.jobs")
        assert (shown, args) == ("jsonb", {"to": "me", "n": [1, 2.5]})
        [(kept,)] = connection.execute("select pg_typeof(args)::text from earlier.job")
        assert kept == "json"
