"""Splits a connection string into libpq's part and the pool's options, which libpq would refuse.

No error and no repr of this module repeats a piece of the string that could be a password.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast.domain.did_you_mean import did_you_mean
from holdfast.errors import InvalidConnectionString, InvalidInput, UnsupportedScheme
from holdfast.postgres.options import KINDS, PoolOptions

_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://")
_PAIR = re.compile(r"\s*(\w+)\s*=\s*('(?:[^'\\]|\\.)*'|(?:[^\s\\]|\\.)*)", re.DOTALL)
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_LAST_PORT = 65535
_HOW_TO = "use postgresql://user@host/database, or key=value pairs such as host=localhost dbname=shop"

# A peer that vanished without a word is noticed within about half a minute, idle or not: without these the
# operating system waits for minutes (unanswered data) or hours (silence).
_TCP_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_ENVIRONMENT = {"connect_timeout": "PGCONNECT_TIMEOUT"}


@dataclass(frozen=True, slots=True)
class Dsn:
    """A connection string that was read. `where` names the database for logs and errors, without secrets."""

    where: str
    options: PoolOptions
    params: Mapping[str, str] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> "Dsn":
        if not text.strip():
            raise InvalidConnectionString(f"the connection string is empty: {_HOW_TO}")
        if "\0" in text:
            raise InvalidConnectionString("the connection string holds a NUL character")
        scheme = _SCHEME.match(text)
        if scheme and scheme[1].lower() not in ("postgres", "postgresql"):
            raise UnsupportedScheme(scheme[1])
        given, rest = _split_url(text[scheme.end() :]) if scheme else _split_pairs(text)
        params = _read(rest)
        return cls(_where(params), _options(given), _with_defaults(params))

    def conninfo(self, purpose: str) -> str:
        """For libpq. A session is called after its purpose, unless the user gave it a name."""
        return make_conninfo("", **{"fallback_application_name": f"holdfast/{purpose}", **self.params})

    def without_secrets(self, message: str) -> str:
        """A message of libpq's with any password taken out."""
        for name in ("password", "sslpassword"):
            secret = self.params.get(name)
            if secret:
                message = message.replace(secret, "***")
        return message


def _split_url(rest: str) -> tuple[dict[str, str], str]:
    """The pool's options of a URL and the URL without them.

    As libpq reads it, a "?" before the "@" of the credentials belongs to the password.
    """
    credentials = re.match(r"[^@/]*@", rest)
    base, mark, query = rest[credentials.end() if credentials else 0 :].partition("?")
    given, kept = {}, []
    for pair in query.split("&"):
        name, _, value = pair.partition("=")
        if unquote(name) in KINDS:
            given[unquote(name)] = unquote(value)
        else:
            kept.append(pair)
    tail = mark + "&".join(kept) if kept != [""] and kept else ""
    return given, f"postgresql://{credentials[0] if credentials else ''}{base}{tail}"


def _split_pairs(text: str) -> tuple[dict[str, str], str]:
    given, kept, end = {}, [], 0
    while pair := _PAIR.match(text, end):
        end = pair.end()
        if pair[1] in KINDS:
            given[pair[1]] = re.sub(r"\\(.)", r"\1", pair[2].removeprefix("'").removesuffix("'"))
        else:
            kept.append(pair[0])
    return given, "".join(kept) + text[end:]


def _read(text: str) -> dict[str, str]:
    try:
        params = {name: str(value) for name, value in conninfo_to_dict(text).items() if value is not None}
    except (psycopg.Error, UnicodeError) as error:
        # libpq quotes what it could not read, and that may be a password: from the first quote to the last.
        reason = (
            re.sub(r'".*"', '"…"', str(error), flags=re.DOTALL) if isinstance(error, psycopg.Error) else ""
        )
        if meant := did_you_mean(text.partition(":")[0].lower(), ["embedded"]):
            raise InvalidConnectionString(
                f"the connection string cannot be read{meant} Else {_HOW_TO}"
            ) from None
        raise InvalidConnectionString(
            f"the connection string cannot be read ({reason.strip() or 'not text'}): {_HOW_TO}"
        ) from None
    for port in filter(None, params.get("port", "").split(",")):
        if not _PORT.fullmatch(port) or int(port) > _LAST_PORT:
            raise InvalidConnectionString(
                "the port in the connection string is not a number from 1 to 65535: "
                'a URL reads postgresql://user:password@host:port/database, with "/" in a password as %2F'
            )
    if "@" in params.get("host", "") and "/" not in params["host"]:
        raise InvalidConnectionString(
            'the host in the connection string contains "@": in a password "@" is written %40'
        )
    return params


def _options(given: Mapping[str, str]) -> PoolOptions:
    try:
        return PoolOptions(**given)  # type: ignore[arg-type]  # PoolOptions reads the texts, and refuses them
    except InvalidInput as error:
        raise InvalidConnectionString(f"in the connection string, {error}") from None


def _with_defaults(params: Mapping[str, str]) -> dict[str, str]:
    defaults = {
        name: value for name, value in _TCP_DEFAULTS.items() if _ENVIRONMENT.get(name, "") not in os.environ
    }
    return {**defaults, **params}


def _where(params: Mapping[str, str]) -> str:
    """`host:port/database`, as far as the string says it."""
    hosts = (params.get("host") or params.get("hostaddr") or "").split(",")
    ports = (params.get("port") or "").split(",")
    if len(ports) < len(hosts):
        ports = ports * len(hosts)
    places = ",".join(f"{h or 'localhost'}{f':{p}' if p else ''}" for h, p in zip(hosts, ports, strict=False))
    return f"{places}/{params.get('dbname') or params.get('service') or ''}"
