"""Chores are declared once and registered once, and nothing that is announced goes unheard."""

import ast
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import holdfast
from acceptance.in_process_workers import noting, working
from holdfast import App
from holdfast.leader_chores import LEADER_CHORES
from holdfast.postgres.listener import Listener
from holdfast.postgres.schema import Schema
from holdfast.producer.wake_ups import LEADER, wake
from holdfast.storage.channels import Channel
from holdfast.worker.chores.chore import Chore

SOURCE = Path(holdfast.__file__).parent
SENT = re.compile(r"pg_notify\('\{schema_name\}\.(\w+)'")


def declared() -> dict[str, Chore]:
    """Every chore that any module of the package makes, by where it stands."""
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")
        if not module.name.endswith("__main__")
    ]
    return {
        name: value for module in modules for name, value in vars(module).items() if isinstance(value, Chore)
    }


def test_every_chore_of_the_package_is_registered_once() -> None:
    chores = declared()
    assert len(chores) > 10
    assert [name for name, chore in chores.items() if chore not in LEADER_CHORES] == []
    assert len(set(LEADER_CHORES)) == len(LEADER_CHORES)


def test_no_two_chores_have_one_name() -> None:
    assert len({chore.name for chore in LEADER_CHORES}) == len(LEADER_CHORES)


def test_a_chore_is_woken_only_by_chores_that_run() -> None:
    wakers = {by for chore in LEADER_CHORES for by in chore.woken_by if isinstance(by, Chore)}
    assert wakers <= set(LEADER_CHORES)


def test_a_chore_that_polls_for_want_of_notifications_is_woken_by_them() -> None:
    for chore in LEADER_CHORES:
        if chore.polls_unheard:
            assert any(isinstance(by, Channel) for by in chore.woken_by), chore.name


def test_every_channel_that_sql_sends_on_is_known_and_none_is_unused() -> None:
    sent = {channel for path in SOURCE.rglob("*.sql") for channel in SENT.findall(path.read_text("utf-8"))}
    assert sent == set(Channel)


def test_a_producer_sends_on_the_channels_that_workers_listen_to() -> None:
    schema = Schema("shop")
    sent = wake(schema, {"mail", LEADER}).params["channels"]
    assert sent == [Channel.DUE.in_schema(schema), Channel.READY.in_schema(schema)]


def test_python_names_a_channel_only_by_its_enum() -> None:
    """A channel's name inside of an f-string would be one more spelling, which no listener follows."""
    spelled = [
        f"{path.relative_to(SOURCE)}:{part.lineno}"
        for path in SOURCE.rglob("*.py")
        for text in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(text, ast.JoinedStr) and "schema" in ast.unparse(text)
        for part in ast.walk(text)
        if isinstance(part, ast.Constant) and str(part.value).removeprefix(".") in set(Channel)
    ]
    assert spelled == []


async def test_a_worker_listens_to_every_channel(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: set[str] = set()
    subscribe = Listener.subscribe

    def noted(listener: Listener, channel: str, *rest: object) -> object:
        heard.add(channel)
        return subscribe(listener, channel, *rest)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(Listener, "subscribe", noted)
    async with App(dsn) as app:
        noting(app)
        async with working(app):
            pass
    assert heard == {channel.in_schema(app.schema) for channel in Channel}
