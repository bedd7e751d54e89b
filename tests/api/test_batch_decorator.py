"""`@app.job(batch=…)`: what can be declared, what is stored, and what is refused before anything runs."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, TypedDict

import msgspec
import pydantic
import pytest

from holdfast import App, Batch, BatchContext, BatchFailed, Context
from holdfast.codec.batch_signature import BatchSignature
from holdfast.errors import InvalidArguments, InvalidInput, Undecodable

NOWHERE = "postgresql://127.0.0.1:1/nowhere"


@dataclass
class Note:
    number: int
    tags: list[str] | None = None


class Named(NamedTuple):
    number: int
    tags: list[str] | None = None


class Typed(TypedDict):
    number: int


class Model(pydantic.BaseModel):
    number: int = pydantic.Field(ge=0)


class Record(msgspec.Struct):
    number: int


@dataclass
class Even:
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError(f"{self.number} is odd")


@pytest.fixture
def apart() -> App:
    return App(NOWHERE)


def batch(of: Callable[..., Any] = Note, size: int = 10) -> Batch[..., Any]:
    return Batch(size, of=of, wait="200ms")


@pytest.mark.parametrize("of", [Note, Named, Typed, Model, Record, Even])
def test_an_item_may_be_of_any_class_with_fields(apart: App, of: Any) -> None:
    async def index(items: Any) -> None: ...

    index.__annotations__ = {"items": list[of], "return": None}
    job = apart.job(batch=batch(of))(index)
    apart.check()
    call = job.call(number=8)
    assert call.job.args == '{"number":8}', "the fields of the item are the arguments of the job"
    signature = job.kind.signature
    assert isinstance(signature, BatchSignature)
    assert signature.item(call.job.args) == of(number=8)
    assert '"number"' in json.dumps(signature.json_schema())


def test_what_its_own_class_refuses_is_refused_when_it_is_enqueued(apart: App) -> None:
    @apart.job(batch=Batch(10, of=Even, wait="0s"))
    async def index(items: list[Even]) -> None: ...

    with pytest.raises(InvalidArguments, match="Even refuses them: 3 is odd"):
        index.call(3)
    with pytest.raises(InvalidArguments, match="there is no parameter size"):
        index.call(size=3)  # type: ignore[call-arg]  # the point
    signature = index.kind.signature
    assert isinstance(signature, BatchSignature)
    with pytest.raises(Undecodable, match="Even refuses the stored arguments of index"):
        signature.item('{"number": 3}')


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (
            lambda: Batch(0, of=Note, wait="1s"),
            "the size of a batch is 0: give a whole number from 1 to 10,000",
        ),
        (lambda: Batch(True, of=Note, wait="1s"), "the size of a batch is True"),
        (lambda: Batch(1.5, of=Note, wait="1s"), "the size of a batch is 1.5"),  # type: ignore[arg-type]
        (
            lambda: Batch(10, of=Note, wait="2h"),
            "the wait of a batch is '2h': give a length of time from \"0s\"",
        ),
        (lambda: Batch(10, of=Note, wait=timedelta(-1)), "the wait of a batch is"),
        (lambda: Batch(10, of=Note, wait=5), "wait is 5: write a length of time"),  # type: ignore[arg-type]
        (lambda: Batch(10, of=7, wait="1s"), "a batch is of 7: give the class"),  # type: ignore[arg-type]
        (lambda: BatchFailed({}), r"BatchFailed\({}\): give a dict"),
        (lambda: BatchFailed([1]), r"BatchFailed\(\[1\]\): give a dict"),  # type: ignore[arg-type]
        (lambda: BatchFailed({1: "no"}), "BatchFailed has 'no' at 1: give an exception"),  # type: ignore[dict-item]
    ],
)
def test_what_cannot_be_a_batch_is_refused(made: Callable[[], object], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        made()


def test_a_batch_says_what_it_is() -> None:
    assert repr(batch()) == "Batch(10, of=Note, wait=0:00:00.200000)"


def none() -> None: ...


def too_many(ctx: BatchContext, notes: list[Note], more: int) -> None: ...


def well(notes: list[Note]) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "problem"),
    [
        (none, {}, r"none\(\): the handler of a batch takes one list"),
        (too_many, {}, r"too_many\(ctx, notes, more\): the handler of a batch takes one list"),
        (well, {"isolate": "process"}, 'cannot have both batch and isolate="process"'),
        (well, {"batch": 100}, r"batch is 100: give a Batch\(100, of=…"),
        (well, {"batch": Batch(10, of=int, wait="1s")}, "whose fields are unknown"),
        (well, {"batch": Batch(10, of=lambda *notes: notes, wait="1s")}, "take a list"),
    ],
)
def test_what_cannot_work_is_refused_at_declaration(
    apart: App, function: Callable[..., Any], options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        apart.job(**{"batch": batch(), **options})(function)


def no_context(ctx: Context, notes: list[Note]) -> None: ...


def no_list(notes: Note) -> None: ...


def untyped(notes) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001  # the point
    ...


def of_others(notes: list[int]) -> None: ...


def one_result(notes: list[Note]) -> int:
    return len(notes)


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (
            no_context,
            r"no_context\(ctx\): of the two parameters of a batch's handler the first is annotated BatchC",
        ),
        (no_list, r"no_list\(notes\): the handler of a batch takes a list: annotate it list\[Note\]"),
        (untyped, r"untyped\(notes\): the handler of a batch takes a list"),
        (of_others, r"of_others\(notes\): it takes a list of int, and its batch is of Note"),
        (one_result, "one_result returns int: the handler of a batch returns a list"),
    ],
)
def test_annotations_that_do_not_fit_are_refused_when_the_app_starts(
    apart: App, function: Callable[..., Any], problem: str
) -> None:
    apart.job(batch=batch())(function)
    with pytest.raises(InvalidInput, match=problem):
        apart.check()


def test_a_handler_may_take_a_sequence_and_return_a_list_or_none(apart: App) -> None:
    @apart.job(batch=batch())
    def index(notes: Sequence[Note]) -> list[str]:
        return [str(note.number) for note in notes]

    apart.check()
    assert index.kind.signature.decode_result('"7"') == "7"
    assert index.function([Note(7)]) == ["7"]
