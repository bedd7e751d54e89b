"""Python and the SQL function refuse the same names, keys and tags."""

import unicodedata

import psycopg
import pytest

from holdfast.domain.job import MOST_TAGS, NewJob, Policy
from holdfast.errors import InvalidInput
from support.engine import Engine

UNSEEN = [
    "\n", "\x1b", "\x7f", "\x85", "\xa0", "\xad", "\u061c", "\u180e", "\u200b", "\u200e", "\u2028", "\u2029",
    "\u202a", "\u202e", "\u2060", "\u2066", "\u2069", "\u3000", "\ufeff", "\ufff9", "\ue000", "\U000e0041",
    "\U0010fffd", "\U000110bd", "\U0001d173",
]  # fmt: skip
SEEN = [" ", "é", "日", "🙂", "ё", "أ", "-", "'", '"', "\\", "%", "{", "\u0301"]


def by_python(fields: dict[str, object]) -> bool:
    key = fields.pop("unique_key", None)
    tags = fields.pop("tags", ())
    assert isinstance(tags, tuple)
    try:
        NewJob(Policy(**{"kind": "mail", **fields}, tags=tags), unique_key=key)  # type: ignore[arg-type]
    except InvalidInput:
        return False
    return True


def by_sql(engine: Engine, fields: dict[str, object]) -> bool:
    named = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
    casts = {name: f"{name} => %({name})s::text{'[]' if name == 'tags' else ''}" for name in named}
    try:
        with engine.connection.transaction(force_rollback=True):
            engine.connection.execute(
                f"select holdfast.enqueue({', '.join(casts.values())})",
                named,
            )
    except psycopg.errors.InvalidParameterValue:
        return False
    return True


def asked(text: str) -> list[dict[str, object]]:
    return [
        {"kind": text},
        {"kind": "mail", "queue": text},
        {"kind": "mail", "unique_key": text},
        {"kind": "mail", "tags": ("a", text)},
    ]


@pytest.mark.requirement("S2.8")
def test_python_and_sql_refuse_the_same_names_keys_and_tags(dsn: str) -> None:
    texts = {f"a{character}b": False for character in UNSEEN} | {f"a{c}b": True for c in SEEN}
    texts |= {"": False, "x" * 200: True, "x" * 1001: False}
    with Engine.on(dsn, now=None) as engine:
        for text, is_fit in texts.items():
            for fields in asked(text):
                verdicts = (by_python(dict(fields)), by_sql(engine, fields))
                assert verdicts == (is_fit, is_fit), (fields, [hex(ord(c)) for c in text[:3]])


def test_python_and_sql_take_as_many_tags(dsn: str) -> None:
    with Engine.on(dsn, now=None) as engine:
        for count, is_fit in ((MOST_TAGS, True), (MOST_TAGS + 1, False), (100_000, False)):
            fields: dict[str, object] = {"kind": "mail", "tags": ("x" * 200,) * count}
            assert (by_python(dict(fields)), by_sql(engine, fields)) == (is_fit, is_fit)


def test_python_and_sql_judge_every_character_alike(dsn: str) -> None:
    """But for the halves of surrogate pairs and NUL, which no text of Postgres holds."""
    every = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    with Engine.on(dsn, now=None) as engine:
        [(source,)] = engine.connection.execute(
            "select prosrc from pg_proc where oid = 'holdfast.enqueue'::regproc"
        )
        pattern = source.split("name ~ '")[1].split("'")[0]
        rows = engine.connection.execute(
            "select c from unnest(%s::text[]) as t (c) where c ~ %s", [every, pattern]
        ).fetchall()
    refused = {character for (character,) in rows}
    assert refused == {character for character in every if not by_python({"kind": character})}
    formats = {c for c in every if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Co")}
    assert formats <= refused
