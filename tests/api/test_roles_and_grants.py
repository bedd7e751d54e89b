"""Roles with few rights: the grants of docs/how-to/enqueue-from-sql.md suffice; missing ones are named."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast import App
from holdfast.errors import MissingPrivilege, StatementFailed
from support.blocking_in_a_loop import both_colours

PAGE = Path(__file__).parents[2] / "docs/how-to/enqueue-from-sql.md"
NAMES_THE_PAGE = "docs/how-to/least-privilege.md"


class Role:
    def __init__(self, dsn: str, admin: psycopg.Connection) -> None:
        self.name = f"shop_frontend_{conninfo_to_dict(dsn)['dbname']}"
        self.dsn = make_conninfo(dsn, user=self.name, password="secret")
        self._admin = admin
        self.be("create role shop_frontend login password 'secret'")

    def be(self, text: str) -> None:
        self._admin.execute(text.replace("shop_frontend", self.name).encode())


@pytest.fixture
def role(dsn: str) -> Iterator[Role]:
    with psycopg.connect(dsn, autocommit=True) as admin:
        role = Role(dsn, admin)
        yield role
        admin.execute(sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(role.name)))


@both_colours
async def test_a_producer_with_the_grants_of_the_page_enqueues_in_every_way(role: Role) -> None:
    _, rights = PAGE.read_text("utf-8").split("## Rights")
    create, *grants = re.findall(r"```sql\n(.*?)```", rights, re.DOTALL)
    for grant in (create.replace("create role shop_frontend;", ""), *grants):
        role.be(grant)
    async with App(role.dsn) as app:

        @app.job
        def mail(to: str) -> None: ...

        await mail.enqueue("ada")
        await mail.using(delay="1h", deadline="2h", tags=["a"]).enqueue("ada")
        await mail.using(unique=True, on_conflict="existing").enqueue("ada")
        await mail.using(unique=True, on_conflict="existing").enqueue("ada")
        await app.enqueue_many([mail.call("ada"), mail.call("bob")])
        mail.enqueue_sync("ada")
        app.enqueue_many_sync([mail.call("ada"), mail.call("bob")])
        async with await psycopg.AsyncConnection.connect(role.dsn) as connection:
            await mail.using(conn=connection).enqueue("ada")
        role.be("grant select on all tables in schema holdfast to shop_frontend")
        assert (await (await mail.enqueue("ada")).status()).state == "ready"


@both_colours
async def test_what_a_role_may_not_do_is_told_with_the_table_and_the_page(role: Role) -> None:
    app = App(role.dsn)

    @app.job
    def mail(to: str) -> None: ...

    with pytest.raises(MissingPrivilege, match="permission denied for schema holdfast"):
        await mail.enqueue("ada")
    role.be("grant usage on schema holdfast to shop_frontend")
    with pytest.raises(MissingPrivilege, match=f"permission denied for table migration.*{NAMES_THE_PAGE}"):
        mail.enqueue_sync("ada")
    role.be("grant select on holdfast.migration to shop_frontend")
    told = rf"enqueue_one: permission denied for table \w+\).*grant.*{NAMES_THE_PAGE}"
    with pytest.raises(MissingPrivilege, match=told) as refused:
        await mail.enqueue("ada")
    assert isinstance(refused.value, StatementFailed)
    assert refused.value.sqlstate == "42501"
    with pytest.raises(MissingPrivilege, match=told):
        mail.enqueue_sync("ada")
    with pytest.raises(MissingPrivilege, match=rf"permission denied for .*{NAMES_THE_PAGE}"):
        await app.enqueue_many([mail.call("ada"), mail.call("bob")])
    with pytest.raises(MissingPrivilege, match=rf"permission denied for table worker\).*{NAMES_THE_PAGE}"):
        async with app.worker():
            pass
    await app.close()
