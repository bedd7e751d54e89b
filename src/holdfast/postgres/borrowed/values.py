"""What drivers do differently with the same value, evened out, so that one statement has one answer."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TypeAlias
from uuid import UUID

from holdfast.postgres.statement import Statement

Rows: TypeAlias = Sequence[Sequence[object]]

_JSONB_PARAMETER = re.compile(r"(\$\d+)::jsonb?(\[\])?(?!\w)")


def plain(value: object) -> object:
    """The value as psycopg gives it in a session whose time zone is UTC.

    psycopg2 gives memoryviews for bytea, asyncpg a UUID class of its own; and a datetime in a named time
    zone adds and compares by the clock on the wall, which is wrong twice a year.
    """
    match value:
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC)
        case memoryview():
            return bytes(value)
        case UUID() if type(value) is not UUID:
            return UUID(int=value.int)
        case list():
            return [plain(item) for item in value]
        case _:
            return value


def written_into_text(params: Mapping[str, object]) -> dict[str, object]:
    """Parameters for drivers that may write them into the text instead of sending them beside it.

    There a cast binds tighter than a minus sign: -32768::smallint is out of range, '-32768'::smallint
    is not. Sent beside the text, a quoted number means the same, as every parameter has a cast.
    """
    return {name: str(value) if _is_negative(value) else value for name, value in params.items()}


def _is_negative(value: object) -> bool:
    return isinstance(value, int) and value < 0


def for_asyncpg(statement: Statement[object]) -> tuple[str, tuple[object, ...]]:
    """Numbered, and with JSON sent as text.

    asyncpg picks the encoder by the type of the parameter, and many a caller has registered json.dumps
    for jsonb: what is JSON already would become a JSON string that holds it.
    """
    text, values = statement.numbered()
    return _json_as_text(text), values


@cache
def _json_as_text(text: str) -> str:
    return _JSONB_PARAMETER.sub(
        lambda found: f"{found[1]}::text{found[2] or ''}{found[0][len(found[1]) :]}", text
    )
