"""A value of every type that a statement may send, with the cast it is sent with."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID

ID = UUID("0197c5c2-57a8-7e3c-9a4b-1f2e3d4c5b6a")
NOON = datetime(2026, 7, 1, 12, 0, 0, 123456, UTC)
IN_THE_HOUR_THAT_COMES_TWICE = datetime(2026, 11, 1, 4, 15, tzinfo=UTC)
LONG = timedelta(days=400, hours=3, microseconds=7)

EXAMPLES: list[tuple[str, object]] = [
    ("bool", True),
    ("bool", False),
    ("smallint", -(2**15)),
    ("int", -(2**31)),
    ("int", 2**31 - 1),
    ("bigint", -(2**63)),
    ("bigint", 2**63 - 1),
    ("bigint", 0),
    ("float8", 1.5),
    ("float8", -1e-300),
    ("float8", float("inf")),
    ("text", ""),
    ("text", "100% 'quoted' \"twice\" \\back %(name)s $1 {brace} :name é 🙂\n"),
    ("bytea", b""),
    ("bytea", bytes(range(256))),
    ("timestamptz", NOON),
    ("timestamptz", IN_THE_HOUR_THAT_COMES_TWICE),
    ("timestamptz", datetime(1, 1, 1, 12, tzinfo=UTC)),
    ("timestamp", datetime(2026, 7, 1, 12)),  # noqa: DTZ001 - without time zone is what is meant
    ("date", date(2026, 7, 1)),
    ("interval", LONG),
    ("interval", -LONG),
    ("uuid", ID),
    ("numeric", Decimal("-12345678901234567890.1230")),
    ("numeric", Decimal("1.50")),
    ("bool[]", [True, None, False]),
    ("smallint[]", [-(2**15)]),
    ("int[]", [1, -(2**31), None]),
    ("bigint[]", [-(2**63), 2**63 - 1, None]),
    ("bigint[]", []),
    ("bigint[]", [None]),
    ("float8[]", [1.5, -0.25, None]),
    ("text[]", ["", "NULL", None, "{a,b}", 'it\'s 100% \\ "so"']),
    ("text[]", []),
    ("bytea[]", [b"\0\xff", None]),
    ("timestamptz[]", [NOON, None, IN_THE_HOUR_THAT_COMES_TWICE]),
    ("interval[]", [LONG, None]),
    ("uuid[]", [ID, None]),
    ("numeric[]", [Decimal("1.50"), None]),
]


def typed(value: object) -> object:
    """With its exact type, so that a subclass or a datetime in another zone is seen as different."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value), value, getattr(value, "tzinfo", None)
