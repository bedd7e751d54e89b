"""What an old job's arguments become under a new definition, and a new one's under an old."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pytest

from codec.support import Context
from holdfast.codec.signature import Signature
from holdfast.errors import HoldfastError, InvalidInput, Undecodable

HINT = "Its definition has probably changed between enqueueing and running. Stored: "


class Plan(Enum):
    FREE = "free"
    PAID = "paid"


class FewerPlans(Enum):
    FREE = "free"


@dataclass
class Person:
    name: str
    age: int


@dataclass
class PersonWithMail:
    name: str
    age: int
    mail: str | None = None


@dataclass
class PersonWhoMustHaveMail:
    name: str
    age: int
    mail: str


def before(user_id: int, locale: str = "en") -> None: ...


OLD = Signature.of(before, context=Context).encode((42,), {"locale": "nb"})


def read(function: Any, text: str) -> dict[str, Any]:
    return Signature.of(function, context=Context).decode(text)


def same_with_default_added(user_id: int, locale: str = "en", retries: int = 3) -> None: ...
def reordered(*, locale: str = "en", user_id: int) -> None: ...
def with_context_added(ctx: Context, user_id: int, locale: str = "en") -> None: ...
def widened(user_id: int | str, locale: str | None = None) -> None: ...
def untyped(user_id: float, locale: Any = None) -> None: ...


@pytest.mark.parametrize(
    "function", [same_with_default_added, reordered, with_context_added, widened, untyped]
)
def test_old_jobs_go_on_under_a_definition_that_takes_more(function: Any) -> None:
    assert read(function, OLD) == {"user_id": 42, "locale": "nb"}


def test_a_default_that_was_not_given_is_the_one_of_the_code_that_runs() -> None:
    text = Signature.of(before, context=Context).encode((42,), {})

    def job(user_id: int, locale: str = "nb") -> str:
        return f"{user_id} {locale}"

    assert job(**read(job, text)) == "42 nb"


def removed(user_id: int) -> None: ...
def renamed(user_id: int, language: str = "en") -> None: ...
def required_added(user_id: int, locale: str, mail: str) -> None: ...
def retyped(user_id: str, locale: str = "en") -> None: ...


@pytest.mark.requirement("S1.15", "S1.16")
@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (removed, "removed() cannot take its stored arguments: there is no parameter locale. "),
        (renamed, "renamed() cannot take its stored arguments: there is no parameter locale. "),
        (
            required_added,
            "required_added() cannot take its stored arguments: mail is missing, and has no default. ",
        ),
        (retyped, "retyped() cannot take its stored arguments: user_id: expected str, got int. "),
    ],
)
def test_what_does_not_fit_any_more_says_so_and_shows_what_is_stored(function: Any, problem: str) -> None:
    with pytest.raises(Undecodable) as raised:
        read(function, OLD)
    assert str(raised.value) == f'{problem}{HINT}{{"user_id":42,"locale":"nb"}}'
    assert raised.value.text == OLD
    assert not isinstance(raised.value, InvalidInput)


@pytest.mark.parametrize("stored", ["", "{", "[]", "null", "3", '{"user_id":1}x', '{"user_id":"\\ud800"}'])
def test_whatever_is_stored_is_read_or_undecodable(stored: str) -> None:
    with pytest.raises(Undecodable) as raised:
        read(before, stored)
    assert raised.value.text == stored


@pytest.mark.requirement("S4.14")
def test_one_undecodable_payload_does_not_disturb_the_others() -> None:
    signature = Signature.of(before, context=Context)
    outcomes: list[object] = []
    for text in ('{"user_id":1}', '{"user_id":"?"}', '{"user_id":3}'):
        try:
            outcomes.append(signature.decode(text))
        except Undecodable as error:
            outcomes.append(error.text)
    assert outcomes == [{"user_id": 1}, '{"user_id":"?"}', {"user_id": 3}]


def test_a_very_long_text_is_repeated_in_part_and_kept_whole() -> None:
    text = f'{{"user_id":"{"x" * 5000}"}}'
    with pytest.raises(Undecodable, match=r"… \(5,014 characters\)$") as raised:
        read(before, text)
    assert len(str(raised.value)) < 1_300
    assert raised.value.text == text


def plan(plan: Plan) -> None: ...
def fewer_plans(plan: FewerPlans) -> None: ...


def test_a_member_that_was_removed_from_an_enum_is_undecodable() -> None:
    signature = Signature.of(plan, context=Context)
    assert read(fewer_plans, signature.encode((Plan.FREE,), {})) == {"plan": FewerPlans.FREE}
    with pytest.raises(Undecodable, match="plan: invalid enum value 'paid'"):
        read(fewer_plans, signature.encode((Plan.PAID,), {}))


def one(person: Person) -> None: ...
def one_with_mail(person: PersonWithMail) -> None: ...
def one_who_must(person: PersonWhoMustHaveMail) -> None: ...


def test_fields_of_a_class_may_come_with_a_default_and_may_go() -> None:
    old = '{"person":{"name":"Kari","age":40}}'
    new = '{"person":{"name":"Kari","age":40,"mail":"kari@example.org"}}'
    assert read(one_with_mail, old) == {"person": PersonWithMail("Kari", 40)}
    assert read(one, new) == {"person": Person("Kari", 40)}
    with pytest.raises(Undecodable, match="person: object missing required field mail"):
        read(one_who_must, old)


def test_whatever_code_of_a_class_raises_is_undecodable() -> None:
    @dataclass
    class Picky:
        name: str

        def __post_init__(self) -> None:
            raise KeyError(self.name)

    def job(value: Picky) -> None: ...

    signature = Signature.of(job, context=Context)
    with pytest.raises(Undecodable, match="'Kari'") as raised:
        signature.decode('{"value":{"name":"Kari"}}')
    assert isinstance(raised.value, HoldfastError)
    assert isinstance(raised.value.__cause__, KeyError)
