"""Wrong arguments fail where they are given, before anything is written, and the error says which and why."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest

from codec.shapes import Address, Colour, Gift, Language, Line, Order, Percent, Point, Size, Tree
from codec.support import Context, taking
from holdfast.codec.signature import Signature
from holdfast.errors import InvalidArguments, InvalidInput


async def send_welcome(ctx: Context, user_id: int, locale: str = "en", *, retry: bool = False) -> str:
    return f"{ctx}{user_id}{locale}{retry}"


WELCOME = Signature.of(send_welcome, context=Context)
TAKES = "it takes (user_id: int, locale: str = 'en', *, retry: bool = False)"


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (("x",), {}, "send_welcome(user_id=…): expected int, got str 'x'"),
        ((True,), {}, "send_welcome(user_id=…): expected int, got bool True"),
        ((4.0,), {}, "send_welcome(user_id=…): expected int, got float 4.0"),
        ((None,), {}, "send_welcome(user_id=…): expected int, got NoneType None"),
        ((1, None), {}, "send_welcome(locale=…): expected str, got NoneType None"),
        ((1,), {"retry": 1}, "send_welcome(retry=…): expected bool, got int 1"),
        ((), {}, f"send_welcome(): missing a required argument: 'user_id'; {TAKES}"),
        ((1, "nb", True), {}, f"send_welcome(): too many positional arguments; {TAKES}"),
        ((1,), {"lang": "nb"}, f"send_welcome(): there is no parameter lang; {TAKES}"),
        ((1,), {"user_id": 2}, f"send_welcome(): multiple values for argument 'user_id'; {TAKES}"),
        (
            (1, b"nb"),
            {},
            "send_welcome(locale=…): expected str, got bytes b'nb', which would arrive as str 'bmI='",
        ),
        (
            (1, "a\0b"),
            {},
            "str 'a\\x00b' holds a NUL character, which Postgres cannot store: remove or encode it",
        ),
        (
            (1, "\ud800"),
            {},
            "str '\\ud800' holds half of a surrogate pair, which is not valid text: decode it properly first",
        ),
        (
            (1, "x" * 1024 * 1024),
            {},
            "xxxx' takes 1,048,589 bytes, the limit is 1,048,576: store them elsewhere and pass a reference",
        ),
        ((10**5000,), {}, "send_welcome(user_id=…): int cannot be written as JSON: Exceeds the limit"),
        ((object(),), {}, "cannot be written as JSON: JSON has no form for object"),
    ],
)
def test_the_error_names_function_and_parameter(
    args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArguments) as refused:
        WELCOME.encode(args, kwargs)
    assert message in str(refused.value)
    assert refused.value.function == "send_welcome"


def test_an_error_is_caught_as_wrong_input_and_as_a_wrong_type() -> None:
    for kind in (InvalidInput, TypeError, ValueError):
        with pytest.raises(kind):
            WELCOME.encode(("x",), {})


def test_arguments_that_are_too_large_only_together_are_not_blamed_on_one() -> None:
    with pytest.raises(
        InvalidArguments, match=r"send_welcome\(\): the whole takes 40 bytes, the limit is 20"
    ):
        WELCOME.encode((1, "nb"), {"retry": True}, limit=20)
    assert WELCOME.encode((1,), {}, limit=20) == '{"user_id":1}'


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
DEEP: list[Any] = []
for _ in range(700):
    DEEP = [DEEP]


@dataclass
class Counted:
    name: str

    def __post_init__(self) -> None:
        self.name += "!"


@pytest.mark.parametrize(
    ("hint", "value", "message"),
    [
        (float, float("nan"), "job(value=…): expected float, got float nan"),
        (float | None, float("nan"), "job(value=…): nan is not a number and cannot be stored"),
        (list[float | None], [float("-inf")], "job(value[0]=…): -inf is not a number"),
        (Decimal, Decimal("NaN"), "NaN is not a number"),
        (Decimal, Decimal("sNaN"), "sNaN is not a number"),
        (Decimal, Decimal("Infinity"), "Infinity is not a number"),
        (float, 2**53 + 1, "expected float, got int 9007199254740993, which would arrive as float"),
        (Decimal, 0.5, "expected Decimal, got float 0.5"),
        (Decimal, 1, "expected Decimal, got int 1"),
        (UUID, "00000000-0000-0000-0000-000000000007", "expected UUID, got str '00000000-000"),
        (str, UUID(int=7), "expected str, got UUID('0000000"),
        (str, Colour.RED, "expected str, got <Colour.RED: 'red'>"),
        (Colour, "red", "expected Colour, got str 'red'"),
        (Language, "nb", "expected Language, got str 'nb'"),
        (Size, 1, "expected Size, got int 1"),
        (Colour, "green", "invalid enum value 'green'"),
        (bytes, "YWI=", "expected bytes, got str 'YWI='"),
        (date, datetime(2026, 3, 1, tzinfo=UTC), "invalid RFC3339 encoded date, got datetime.date"),
        (datetime, datetime(2026, 3, 1), "2026-03-01 00:00:00 has no time zone: pass an aware datetime"),  # noqa: DTZ001
        (time, time(9, tzinfo=ZoneInfo("Europe/Oslo")), "expected time, got datetime.time"),
        (datetime, datetime(1900, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam")), "expected datetime, got"),
        (list[int], {1}, "expected list, got set {1}"),
        (set[int], [1, 1], "expected set, got list [1, 1]"),
        (list[int], [1, "2"], "job(value[1]=…): expected int, got str"),
        (list[str], ["a", b"b"], "job(value[1]=…): expected str, got bytes b'b'"),
        (dict[str, int], {1: 2}, "a key of dict {1: 2} would arrive as '1'"),
        (dict[int, int], {"a": 2}, "job(value=…): in a key, expected int, got str"),
        (dict[str, str], {"a": UUID(int=7)}, "job(value['a']=…): expected str, got UUID("),
        (Percent, 101, "job(value=…): expected int <= 100, got int 101"),
        (Annotated[str, msgspec.Meta(pattern="^a")], "b", "job(value=…): expected str matching regex '^a'"),
        (Line, {"name": "nut", "price": Decimal(1)}, "expected Line, got dict"),
        (Line, Gift("nut", Decimal(1), card="hi"), "expected Line, got Gift("),
        (Line, Line("nut", 1.5), "job(value.price=…): expected Decimal, got float 1.5"),  # type: ignore[arg-type]
        (Line, Line(7, Decimal(1)), "job(value.name=…): expected str, got int"),  # type: ignore[arg-type]
        (Tree, Tree("a", [Tree(b"b")]), "job(value.children[0].name=…): expected str"),  # type: ignore[arg-type]
        (Address, {"street": "Storgata", "city": "Oslo"}, "expected dict, got dict {'city': 'Oslo'"),
        (Address, {"zip": "0155"}, "object missing required field street"),
        (Point, (1, 2), "expected Point, got tuple (1, 2)"),
        (Counted, Counted("a"), "job(value.name=…): expected str, got str 'a!', which would arrive as str"),
        (Order | None, 1, "job(value=…): expected object | null, got int 1"),
        (Any, {1: 2}, "would arrive as '1'"),
        (Any, UUID(int=7), "expected str, got UUID("),
        (Any, Line("nut", Decimal(1)), "expected dict, got Line("),
        (Any, CYCLE, "is nested too deeply, or holds itself"),
        (Any, DEEP, "is nested too deeply, or holds itself"),
    ],
)  # fmt: skip
def test_what_would_not_arrive_as_it_was_given_is_refused(hint: Any, value: object, message: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        taking(hint).encode((), {"value": value})
    assert message in str(refused.value)


def test_an_argument_that_no_parameter_is_called_by_is_named_with_the_nearest_one() -> None:
    def send_mail(template: str, user: int = 0) -> None: ...

    signature = Signature.of(send_mail, context=object)
    with pytest.raises(InvalidArguments, match=r"no parameter tmplate: did you mean template\?"):
        signature.encode((), {"tmplate": "welcome"})
