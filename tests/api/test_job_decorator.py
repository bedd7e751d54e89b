"""`@app.job`: what a function becomes, and what is refused while the module is still being imported."""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from holdfast import App, Context, Retry
from holdfast.errors import InvalidInput

NOWHERE = "postgresql://127.0.0.1:1/nowhere"


@pytest.fixture
def apart() -> App:
    """An App without a database: decorating must not look for one."""
    return App(NOWHERE)


def test_with_and_without_arguments_a_function_becomes_a_job(apart: App) -> None:
    @apart.job
    def plain(number: int) -> int:
        """Doubles."""
        return number * 2

    @apart.job()
    def called(number: int) -> int:
        return number * 3

    @apart.job(name="shop.quadruple", queue="mail")
    def named(number: int) -> int:
        return number * 4

    assert [job.name for job in (plain, called, named)] == ["plain", "called", "shop.quadruple"]
    assert [job.function(1) for job in (plain, called, named)] == [2, 3, 4]
    assert (plain.__name__, plain.__doc__, plain.__module__) == ("plain", "Doubles.", __name__)
    assert repr(named) == "<Job shop.quadruple>"
    assert set(apart.declared_kinds) == {"plain", "called", "shop.quadruple"}


def first() -> None: ...


def second() -> None: ...


def test_two_jobs_of_one_name_are_both_named(apart: App) -> None:
    apart.job(first)
    with pytest.raises(InvalidInput, match=r'"first": .*\.first and .*\.second; give one of them name='):
        apart.job(name="first")(second)
    apart.job(second)
    App(NOWHERE).job(first)  # another app, another set of names


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": ""}, "kind ''"),
        ({"name": "a\nb"}, "cannot be printed"),
        ({"name": 7}, "kind 7"),
        ({"priority": 10}, "0 .most urgent. to 9"),
        ({"priority": -1}, "priority is -1"),
        ({"priority": 1.5}, "priority is 1.5"),
        ({"priority": True}, "priority is True"),
        ({"timeout": 5}, 'timeout is 5: write a length of time with its unit, such as "5m"'),
        ({"timeout": "0s"}, "timeout"),
        ({"timeout": "soon"}, "timeout 'soon'"),
        ({"timeout": "200y"}, "timeout '200y'"),
        ({"keep": 0}, "keep is 0"),
        ({"keep": "40000d"}, "a hundred years"),
        ({"retry": 5}, r"retry is 5: give a Retry\(max_attempts=…\)"),
        ({"retry": 0}, "retry is 0"),
        ({"tags": "news"}, "tags is 'news'"),
        ({"tags": [""]}, "tag ''"),
        ({"tags": [3]}, "tag 3"),
        ({"on_lost": "ignore"}, '"retry" or "fail"'),
        ({"keep_logs": "sometimes"}, 'keep_logs is .sometimes.: give "never", "on_failure" or "always"'),
        ({"isolate": "thread"}, "isolate is 'thread': give \"process\""),
        ({"memory_limit": 2**30}, 'memory_limit needs isolate="process"'),
        ({"memory_limit": 0, "isolate": "process"}, "memory_limit is 0"),
        ({"memory_limit": 512, "isolate": "process"}, r"512 bytes, .* such as memory_limit=512 \* 2\*\*20"),
        ({"memory_limit": "1GB", "isolate": "process"}, "number of bytes"),
    ],
)
def test_a_bad_option_is_refused_at_decoration(apart: App, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        apart.job(**options)(first)
    assert apart.declared_kinds == {}


@pytest.mark.requirement("S2.8", "S2.26")
@pytest.mark.parametrize("queue", ["", "x" * 201, "a\0b", 5])
def test_a_bad_queue_name_is_refused_at_decoration(apart: App, queue: Any) -> None:
    with pytest.raises(InvalidInput, match="queue"):
        apart.job(queue=queue)(first)


def test_an_unknown_option_is_a_type_error(apart: App) -> None:
    with pytest.raises(TypeError, match=r"app\.job\(\) got an unexpected keyword argument 'quue'"):
        apart.job(quue="mail")  # type: ignore[call-overload]  # as an untyped caller may
    with pytest.raises(TypeError, match=r"app\.flow\(\) got an unexpected keyword argument 'isolate'"):
        apart.flow(isolate="process")  # type: ignore[call-overload]  # as above
    with pytest.raises(TypeError, match=r"app\.machine\(\) got an unexpected keyword argument 'on_lost'"):
        apart.machine(on_lost="fail")  # type: ignore[call-overload]  # as above


def spread(*users: int) -> None: ...
def spread_names(**users: int) -> None: ...
def nameless(user: int, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (spread, r"spread\(\*users\): .*take a list"),
        (spread_names, r"spread_names\(\*\*users\): .*take a dict"),
        (nameless, r'nameless\(user\): .*leave out the "/"'),
        (5, "5 cannot be a job"),
        ("mail", "'mail' cannot be a job"),
    ],
)
def test_what_cannot_be_called_by_name_is_refused_at_decoration(
    apart: App, function: Any, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        apart.job(function)
    assert apart.declared_kinds == {}


def untyped_first(ctx, number: int) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001  # its point
def any_first(ctx: Any, number: int) -> None: ...
def unknown(number: "Nmuber") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # its point
def unstorable(number: int, then: Callable[[], None]) -> None: ...
def context_later(number: int, ctx: Context) -> None: ...
def returns_a_stream(number: int) -> AsyncIterator[int]: ...  # type: ignore[empty-body]  # only its type counts


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (untyped_first, r"untyped_first\(ctx\): .*annotate it Context"),
        (any_first, r"any_first\(ctx\): .*annotate it Context"),
        (unknown, r"unknown\(number\): .*Nmuber"),
        (unstorable, r"unstorable\(then\): "),
        (context_later, r"context_later\(ctx\): .*first parameter"),
        (returns_a_stream, r"what returns_a_stream\(\) returns: "),
    ],
)
def test_annotations_are_read_by_check_which_names_the_parameter(
    apart: App, function: Callable[..., Any], problem: str
) -> None:
    job = apart.job(function)  # what it names may be defined below it
    with pytest.raises(InvalidInput, match=problem):
        apart.check()
    with pytest.raises(InvalidInput, match=problem):
        job.call(1, 2)


async def test_a_worker_does_not_start_with_a_job_that_cannot_be_read(dsn: str) -> None:
    app = App(dsn)
    app.job(any_first)
    with pytest.raises(InvalidInput, match="any_first"):
        async with app.worker():
            pytest.fail("it has started")


async def test_a_worker_without_jobs_says_what_is_missing(dsn: str) -> None:
    with pytest.raises(InvalidInput, match=r"@app\.job, and import its module"):
        async with App(dsn).worker():
            pytest.fail("it has started")


class Greeter:
    def __init__(self, greeting: str) -> None:
        self.greeting = greeting

    def __call__(self, name: str) -> str:
        return f"{self.greeting} {name}"

    def greet(self, name: str) -> str:
        return f"{self.greeting}, {name}"


class SlowGreeter:
    async def __call__(self, name: str) -> str:
        return f"hello at last, {name}"


async def greet(greeting: str, name: str) -> str:
    return f"{greeting}: {name}"


async def test_whatever_can_be_called_can_be_a_job(app: App) -> None:
    jobs = [
        app.job(name="object")(Greeter("hello")),
        app.job(Greeter("hello").greet),
        app.job(SlowGreeter()),
        app.job(name="partial")(functools.partial(greet, "hello")),
    ]
    with pytest.raises(InvalidInput, match=r'"object": .*Greeter object'):
        app.job(name="object")(Greeter("bye"))
    async with app.worker():
        handles = [await job.enqueue(name="Ada") for job in jobs]
        greetings = [await handle.result(timeout="60s") for handle in handles]
    assert greetings == ["hello Ada", "hello, Ada", "hello at last, Ada", "hello: Ada"]


def test_a_policy_of_a_job_is_a_retry(apart: App) -> None:
    job = apart.job(retry=Retry(max_attempts=3))(first)
    assert job.kind.policy.max_attempts == 3
    assert apart.job(second).kind.policy.max_attempts == 20


def counted() -> Iterator[int]:
    yield 1


async def counted_slowly() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("function", [counted, counted_slowly])
@pytest.mark.parametrize("isolate", [None, "process"])
def test_a_function_with_a_yield_is_refused(apart: App, function: Any, isolate: Any) -> None:
    with pytest.raises(InvalidInput, match="has a yield"):
        apart.job(isolate=isolate)(function)
