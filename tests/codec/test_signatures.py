"""Which functions can be jobs, and when their annotations are read."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, ParamSpec, TypeVar

import pytest

from codec import named_later
from codec.named_later import Office, Parcel
from codec.support import Context
from holdfast.codec.signature import Signature
from holdfast.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")


class OnlyForCheckers: ...


class Generous(Generic[R]): ...


def signature_of(function: Callable[..., Any], context: type = Context) -> Signature:
    signature = Signature.of(function, context=context)
    signature.resolve()
    return signature


def logged(function: Callable[P, R]) -> Callable[P, R]:
    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    return wrapper


def with_context(ctx: Context, number: int) -> None: ...
def with_quoted_context(ctx: "Context", number: int) -> None: ...
def with_marked_context(ctx: Annotated[Context, "of the worker"], number: int) -> None: ...
def without_context(number: int) -> None: ...
def without_anything() -> None: ...


@pytest.mark.parametrize(
    ("function", "takes_context"),
    [
        (with_context, True),
        (with_quoted_context, True),
        (with_marked_context, True),
        (named_later.ship, True),
        (without_context, False),
        (without_anything, False),
    ],
)
def test_the_context_is_a_first_parameter_that_says_so(function: Any, takes_context: bool) -> None:
    assert Signature.of(function, context=Context).takes_context is takes_context


def test_a_generic_context_may_be_filled() -> None:
    def job(ctx: Generous[int], number: int) -> None: ...

    assert signature_of(job, Generous).takes_context


def test_the_context_is_not_among_the_arguments() -> None:
    assert signature_of(with_context).encode((3,), {}) == '{"number":3}'


def test_nothing_is_read_at_decoration() -> None:
    def job(number: "Unknown") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    signature = Signature.of(job, context=Context)
    with pytest.raises(InvalidInput, match=r"job\(number\): its type 'Unknown' cannot be read"):
        signature.resolve()


def test_names_that_only_the_caller_knows_can_be_passed_in() -> None:
    @dataclass
    class Local:
        name: str

    def job(item: "Local") -> None: ...

    signature = Signature.of(job, context=Context)
    with pytest.raises(InvalidInput, match="name 'Local' is not defined"):
        signature.resolve()
    signature.resolve(localns=locals())
    assert signature.decode(signature.encode((Local("a"),), {})) == {"item": Local("a")}


def test_a_function_in_a_function_knows_what_it_closes_over() -> None:
    @dataclass
    class Local:
        name: str

    def job(item: "Local") -> "Local":
        return Local(item.name)

    assert signature_of(job).encode((Local("a"),), {}) == '{"item":{"name":"a"}}'


def test_annotations_may_name_what_is_defined_below() -> None:
    signature = signature_of(named_later.ship)
    parcel = Parcel(3, Parcel(1))
    text = signature.encode((parcel,), {"to": Office.Counter(4)})
    assert signature.decode(text) == {"parcel": parcel, "to": Office.Counter(4)}
    assert signature.decode_result(signature.encode_result(parcel).result) == parcel


def test_the_context_may_be_imported_for_type_checkers_only_and_nothing_else_may() -> None:
    with pytest.raises(InvalidInput, match=r"lose\(parcel\): .* not only under TYPE_CHECKING"):
        signature_of(named_later.lose)


@pytest.mark.parametrize("function", [Office().open, Office(), Office.close])
def test_bound_methods_and_objects_that_can_be_called_are_functions_too(function: Any) -> None:
    assert signature_of(function).encode((Office.Counter(1),), {}) == '{"counter":{"number":1}}'


def test_a_method_that_is_not_bound_has_no_type_for_self() -> None:
    with pytest.raises(InvalidInput, match=r"open\(self\): the first parameter has no type"):
        signature_of(Office.open)


def test_a_decorated_function_is_seen_through() -> None:
    signature = signature_of(logged(named_later.ship))
    assert signature.name == "ship"
    assert signature.takes_context
    assert signature.encode((Parcel(1),), {}) == '{"parcel":{"weight":1,"inner":null}}'


def test_a_partial_fills_in_what_is_then_a_default() -> None:
    def job(ctx: Context, first: int, second: int = 2, *, third: str) -> None: ...

    signature = signature_of(functools.partial(job, third="c"))
    assert signature.name == "job"
    assert signature.encode((1,), {}) == '{"first":1}'
    assert signature.encode((1,), {"third": "d"}) == '{"first":1,"third":"d"}'


def test_arguments_are_stored_by_name_without_defaults() -> None:
    def job(first: int, second: int = 2, *, third: str, fourth: list[int] | None = None) -> None: ...

    signature = signature_of(job)
    assert signature.encode((1,), {"third": "c"}) == '{"first":1,"third":"c"}'
    assert signature.encode((1, 2), {"third": "c"}) == '{"first":1,"second":2,"third":"c"}'
    assert signature.decode('{"third":"c","first":1}') == {"first": 1, "third": "c"}


def test_a_default_need_not_be_of_the_type_to_stand_for_nothing() -> None:
    def job(first: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013  # as many still write it

    assert signature_of(job).decode("{}") == {}


def test_any_and_no_annotation_take_any_json_value() -> None:
    def job(first: int, second: Any, third=None) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001

    signature = signature_of(job)
    given = {"first": 1, "second": {"a": [1.5, None]}, "third": [True, "x"]}
    assert signature.decode(signature.encode((), given)) == given


def first_is_any(ctx: Any, number: int) -> None: ...
def first_is_nothing(ctx, number: int) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
def context_is_second(number: int, ctx: Context) -> None: ...
def context_is_named(*, ctx: Context) -> None: ...
def many(number: int, *numbers: int) -> None: ...
def named(number: int, **options: int) -> None: ...
def by_place(number: int, /) -> None: ...


NO_TYPE = "(ctx): the first parameter has no type, so it may be meant as the context: annotate it Context, or"
MISPLACED = "(ctx): the context cannot be stored: take it as the first parameter, annotated Context"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (first_is_any, NO_TYPE),
        (first_is_nothing, NO_TYPE),
        (context_is_second, MISPLACED),
        (context_is_named, MISPLACED),
        (many, "(*numbers): arguments are stored by parameter name, so numbers cannot be: take a list"),
        (named, "(**options): arguments are stored by parameter name, so options cannot be: take a dict"),
        (
            by_place,
            '(number): arguments are stored by parameter name, so number cannot be: leave out the "/"',
        ),
    ],
)
def test_a_parameter_that_cannot_be_stored_by_name_and_type_is_refused(function: Any, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        signature_of(function)
    assert str(refused.value).startswith(function.__name__ + message)


@pytest.mark.parametrize("function", [3, "send", dict.fromkeys])
def test_what_has_no_parameters_to_look_at_is_refused(function: Any) -> None:
    with pytest.raises(InvalidInput):
        signature_of(function)
