"""`holdfast kinds`: what operators read of kinds."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from holdfast import App, Retry, Secret
from holdfast.cli import main
from support.stored_kinds import store_kinds

Captured = pytest.CaptureFixture[str]

LIST = """\
KIND     STYLE      QUEUE     TRIES  TIMEOUT  WORKERS  SEEN (UTC)           PARAMETERS
charge   coroutine  payments  3      9m       none     2026-01-31 09:00:00  order, card, payer, [note]
welcome  thread     default   20              none     2026-01-31 09:00:00
"""
SHOWN = """\
charge  coroutine
  queue     payments, priority 5
  retries   at most 3 attempts; retries after 2s, then 2 times as long, up to 1d
  timeout   9m
  kept      for 2h
  lost      a job whose worker is lost fails, and does not run again
  tags      money, vip
  limits    cpu, stripe by order and note
  workers   no live worker knows it
  seen      first 2026-01-30 09:00:00, last 2026-01-31 09:00:00 UTC
  release   Holdfast 1.2.3
  result    secret
  enqueue   holdfast enqueue charge -p order:=… -p card=… -p payer:=…

PARAMETER  TYPE               REQUIRED  SECRET
order      a whole number     yes
card       text               yes       all of it
payer      an object (Payer)  yes       phone, account.iban
note       text
"""


@dataclass
class Account:
    iban: Secret[str]


@dataclass
class Payer:
    name: str
    phone: Secret[str]
    account: Account


@pytest.fixture
def known(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)

    async def store() -> None:
        async with App(dsn) as app:

            @app.job(
                queue="payments",
                retry=Retry(max_attempts=3),
                timeout="9m",
                keep="2h",
                on_lost="fail",
                tags=["money", "vip"],
                limit=[app.limit("stripe", per_key=2).by("order", "note"), app.limit("cpu", total=8)],
            )
            async def charge(order: int, card: Secret[str], payer: Payer, note: str = "") -> Secret[str]:
                return "receipt"

            @app.job
            def welcome() -> None: ...

            await store_kinds(app)

    asyncio.run(store())
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "update holdfast.kind set first_seen_at = '2026-01-30 09:00Z', last_seen_at = '2026-01-31 09:00Z'"
        )
    return dsn


def told(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main(["kinds", *arguments]) == code
    return capsys.readouterr().out


def told_json(capsys: Captured, *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--json"))


def test_kinds_are_listed(known: str, capsys: Captured) -> None:
    assert told(capsys, "list") == LIST
    assert [kind["name"] for kind in told_json(capsys, "list", "--after", "charge")] == ["welcome"]
    assert [kind["name"] for kind in told_json(capsys, "list", "-n", "1")] == ["charge"]


def test_a_kind_is_shown(known: str, capsys: Captured) -> None:
    assert told(capsys, "show", "charge") == SHOWN
    facts = told_json(capsys, "show", "charge")
    assert facts["parameters"][1] == {"name": "card", "type": "text", "is_required": True, "is_secret": True}
    assert facts["limits"] == [{"name": "cpu", "by": []}, {"name": "stripe", "by": ["order", "note"]}]
    assert (facts["timeout"], facts["last_seen_at"]) == (540.0, "2026-01-31T09:00:00+00:00")


def test_a_kind_is_forgotten_after_a_confirmation(known: str, capsys: Captured) -> None:
    assert main(["kinds", "forget", "welcome"]) == 4
    assert "give --yes" in capsys.readouterr().err
    assert told(capsys, "forget", "welcome", "--yes").startswith('the kind "welcome" is forgotten')
    assert told_json(capsys, "forget", "charge", "--yes") == {"forgotten": "charge"}
    assert told(capsys, "list") == "no kind is known: start a worker\n"
    assert main(["kinds", "forget", "charge", "--yes"]) == 3


def test_an_unknown_kind_is_told_with_similar_names(known: str, capsys: Captured) -> None:
    assert main(["kinds", "show", "chrage"]) == 3
    assert 'did you mean "charge"?' in capsys.readouterr().err
    assert main(["kinds", "list", "--after", ""]) == 2
