"""`holdfast limits`: what operators read of limits, and do with them."""

import json
from typing import Any

import pytest

from holdfast.cli import main
from holdfast.domain.limits import Breaker, LimitSpec
from holdfast.storage.limit_rules import declare
from storage.limits.gates import Gate
from support.engine import SCHEMA, Engine

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def left(dsn: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A limit with two keys that hold permits, one at which jobs wait, and a breaker that has stopped."""
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    with Engine.on(dsn, now=None) as engine:
        engine.worker()
        pause = Breaker(failures=1, pause="1h")
        limits = {"stripe": LimitSpec(per_key=2, total=3), "mailgun": LimitSpec(total=5, breaker=pause)}
        engine.hold(declare(SCHEMA, limits))
        stripe, mailgun = Gate(engine), Gate(engine, "mailgun")
        stripe.arrive(["acme"] * 4 + ["bolt"])
        stripe.settle_down()
        engine.claim(1, limit=1)
        [job] = mailgun.arrive([""])
        mailgun.settle_down()
        mailgun.end(job, "", failures=1)
        mailgun.settle_down()
    return dsn


def told(capsys: Captured, *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    return capsys.readouterr().out


def told_json(capsys: Captured, *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--json"))


def test_limits_are_listed(left: str, capsys: Captured) -> None:
    heads, mailgun, stripe = told(capsys, "limits", "list").splitlines()
    assert heads.split() == ["LIMIT", "ALLOWS", "HELD", "WAITING", "OLDEST", "STATE"]
    assert "stopped by 1 failure for another 59m" in mailgun
    assert "2 per key, 3 in all" in stripe
    assert [each["held"] for each in told_json(capsys, "limits", "list")] == [0, 3]


def test_one_limit_is_shown_with_keys_and_holders(left: str, capsys: Captured) -> None:
    text = told(capsys, "limits", "show", "stripe")
    assert "2 per key, 3 in all" in text
    assert "3 permits by 2 keys" in text
    assert "2 of 2" in text
    assert "#1" in text
    assert "2 more permits held" in text
    found = told_json(capsys, "limits", "show", "stripe", "--key", "bolt")
    assert [key["key"] for key in found["keys"]] == ["bolt"]


def test_a_limit_is_set_and_reset(left: str, capsys: Captured) -> None:
    text = told(
        capsys, "limits", "set", "stripe", "--total", "20", "--rate", "90/10s:5", "--reason", "launch"
    )
    assert text == (
        'limit "stripe" is set: total 3 → 20, rate none → 90 per 10s, burst 5; go back to what code says '
        "with: holdfast limits reset stripe\n"
    )
    assert "2 per key, 20 in all, 90 per 10s, burst 5" in told(capsys, "limits", "list")
    set_to_none = told_json(capsys, "limits", "set", "stripe", "--rate", "none")
    assert (set_to_none["rate"], set_to_none["was"]) == (None, {"rate": "90 per 10s, burst 5"})
    assert "total 20, as before, turns off → on;" in told(
        capsys, "limits", "set", "stripe", "--total", "20", "--turns"
    )
    text = told(capsys, "limits", "set", "stripe", "--key", "acme", "--weight", "2", "--per-key", "1")
    assert 'key "acme" of limit "stripe" is set: per_key none → 1, weight none → 2;' in text
    assert "weight 2" in told(capsys, "limits", "show", "stripe")
    told(capsys, "limits", "reset", "stripe", "--key", "acme")
    assert told_json(capsys, "limits", "reset", "stripe")["total"] == 3


def test_a_breaker_is_set_and_taken_away(left: str, capsys: Captured) -> None:
    text = told(capsys, "limits", "set", "stripe", "--breaker", "5/30s:key")
    assert "breaker none → 5 failures in a row of each key, then 30s;" in text
    assert "breaker" in told(capsys, "limits", "show", "stripe")
    text = told(capsys, "limits", "set", "stripe", "--breaker", "none")
    assert "breaker 5 failures in a row of each key, then 30s → none;" in text
    for wrong in ("5", "x/30s", "5/30s:all", "5/soon"):
        assert main(["limits", "set", "stripe", "--breaker", wrong]) == 2
        assert wrong.rpartition("/")[2] in capsys.readouterr().err


def test_a_key_that_nobody_uses_is_told(left: str, capsys: Captured) -> None:
    assert "waits for one, and nothing is set for it: it is idle, or nobody ever used it" in told(
        capsys, "limits", "show", "stripe", "--key", "acne"
    )
    assert "nobody ever used it" not in told(capsys, "limits", "show", "stripe", "--key", "acme")


def test_a_limit_is_closed_opened_and_removed(left: str, capsys: Captured) -> None:
    text = told(capsys, "limits", "close", "stripe", "--until", "2h", "--reason", "billing")
    assert text == 'limit "stripe" is closed; open it with: holdfast limits open stripe\n'
    assert "closed until 20" in told(capsys, "limits", "list")
    assert told(capsys, "limits", "open", "stripe") == 'limit "stripe" is open\n'
    assert "was not closed by hand" in told(capsys, "limits", "open", "stripe", "--key", "acme")
    assert told(capsys, "limits", "remove", "stripe") == 'limit "stripe" is removed\n'
    assert "was removed before" in told(capsys, "limits", "remove", "stripe")
    assert "everything" in told(capsys, "limits", "list")


def test_what_means_nothing_is_refused(left: str, capsys: Captured) -> None:
    assert main(["limits", "show", "strip"]) == 3
    assert 'did you mean "stripe"?' in capsys.readouterr().err
    assert main(["limits", "set", "stripe"]) == 2
    assert "nothing to set" in capsys.readouterr().err
    assert main(["limits", "set", "stripe", "--total", "many"]) == 2
    assert "neither a whole number nor `none`" in capsys.readouterr().err
    assert main(["limits", "set", "stripe", "--rate", "fast"]) == 2
    assert "give 90/10s" in capsys.readouterr().err
