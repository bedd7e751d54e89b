"""Where a schedule's scopes come from: a list, a function, or a query; and which of them can be used."""

import asyncio
import inspect
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdfast.domain.job import check_name
from holdfast.domain.time_zones import zone_named
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.postgres.database import Database
from holdfast.postgres.statement import Statement
from holdfast.storage.schedules import NewScope
from holdfast.worker import django_connections
from holdfast.worker.job_kind import Kind

_PATIENCE = 60
_SHOWN = 3
_QUERY = re.compile(r"\s*(select|with|values|table)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scope:
    """A scope with arguments of its own for the job, or a time zone of its own for the cron expression."""

    id: str
    args: Mapping[str, Any] | None = None
    zone: str | None = None


Given = str | Scope
Source = (
    str | Sequence[Given] | Callable[[], Awaitable[Iterable[Given]] | AsyncIterator[Given] | Iterable[Given]]
)


class Read(NamedTuple):
    """Scopes that can be used, and what is wrong with the others, for people."""

    scopes: list[NewScope]
    problem: str | None


def check_source(source: object, whose: str) -> None:
    """Refuse what is wrong at first sight. `whose` names the schedule in the error."""
    if isinstance(source, str) and not _QUERY.match(source):
        raise InvalidInput(
            f"{whose}: scopes is the text {source!r}: give a list, or a query that begins with select"
        )
    if not isinstance(source, str | Sequence) and not callable(source):
        raise InvalidInput(f"{whose}: scopes is {source!r}: give a list, an async function, or a query")
    if isinstance(source, Sequence) and not source:
        raise InvalidInput(
            f"{whose}: scopes is empty, so nothing would ever fire: leave it out to fire for the whole "
            "app, or give a function or a query for scopes that come and go"
        )


async def ask_source(source: Source, database: Database) -> list[object]:
    """What the source says now, within a bound. A query runs on the connections of handlers."""
    bound = asyncio.timeout(_PATIENCE)
    try:
        async with bound:
            return await _asked(source, database)
    except TimeoutError:
        if not bound.expired():
            raise  # the source's own
        raise TimeoutError(f"scopes: the source has not answered within {_PATIENCE} s") from None


async def _asked(source: Source, database: Database) -> list[object]:
    if isinstance(source, str):
        return [Row(row) for row in await database.run(_query(source))]
    if not callable(source):
        return list(source)
    if inspect.isasyncgenfunction(source):
        return [scope async for scope in source()]
    answer: Any
    if inspect.iscoroutinefunction(source):
        answer = source()
    else:
        answer = await asyncio.to_thread(django_connections.closed_after, source)
    return list(await answer if inspect.isawaitable(answer) else answer)


def use(given: Iterable[object], kind: Kind, *, has_args: bool) -> Read:
    """Each on its own: one that cannot be used is reported, and holds up no other.

    `has_args`: a scope without arguments of its own takes the schedule's.
    """
    scopes, problems = [], []
    for one in given:
        try:
            scopes.append(_usable(one, kind, has_args=has_args))
        except HoldfastError as error:
            problems.append(f"{getattr(one, 'id', one)!r}: {error}")
    if not problems:
        return Read(scopes, None)
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return Read(scopes, f"{len(problems)} of its scopes cannot be used: {'; '.join(problems[:_SHOWN])}{more}")


class Row:
    """A row of a query: the scope is its first column, `args` and `zone` are known by their names."""

    def __init__(self, text: str) -> None:
        self.columns: dict[str, Any] = json.loads(text)
        self.id = next(iter(self.columns.values()), None)

    def scope(self) -> NewScope:
        args, zone = self.columns.get("args"), self.columns.get("zone")
        name = str(self.id) if isinstance(self.id, int) else self.id
        return NewScope(name or "", None if args is None else json.dumps(args), zone)


def _query(text: str) -> Statement[str]:
    body = text.strip().rstrip(";").replace("%", "%%")
    return Statement("scopes", f"select row_to_json(q)::text from ({body}) q", {}, str)  # noqa: S608  # the user's own


def _usable(one: object, kind: Kind, *, has_args: bool) -> NewScope:
    signature = kind.signature
    match one:
        case str():
            new = NewScope(one)
        case Scope(scope, given, zone):
            new = NewScope(scope, None if given is None else signature.encode((), dict(given)), zone)
        case Row():
            new = one.scope()
            if new.args is not None:
                signature.decode(new.args)
        case _:
            raise InvalidInput("give the scope's id as text, or a Scope")
    check_name("scope", new.scope)
    if new.zone is not None:
        zone_named(new.zone)
    if new.args is not None and kind.limits is not None:
        kind.limits.of(new.args)
    if new.args is None and not has_args:
        raise InvalidInput(f"{signature.name}() needs arguments: give the scope args=…")
    return new
