"""Every public name is documented, every option with its default, and every example is run as it stands."""

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from datetime import timedelta
from typing import Any, get_args

import pytest

import holdfast
from holdfast import App, Job, Retry, WorkerOptions, exponential, polynomial
from holdfast.decorators import Decorators
from holdfast.domain.duration import compact
from holdfast.domain.failure import Code
from holdfast.kind_options import FlowOptions, JobOptions, KindOptions
from support.doc_examples import DOCS, run_page

PAGES = [
    "README.md",
    "reference/app.md",
    "reference/context.md",
    "reference/limits.md",
    "how-to/limits.md",
    "how-to/retry-and-backoff.md",
    "how-to/unique-jobs.md",
    "how-to/groups.md",
    "reference/groups.md",
    "how-to/debounce.md",
    "how-to/run-a-worker.md",
    "how-to/operate.md",
    "how-to/transactions-in-handlers.md",
    "how-to/batches.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_every_example_runs_and_prints_what_the_page_says(
    page: str, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", dsn)
    run_page(page, monkeypatch)


@pytest.mark.parametrize("name", [name for name in holdfast.__all__ if not name.startswith("__")])
def test_every_public_name_has_a_docstring_and_a_place_in_the_reference(name: str) -> None:
    thing = getattr(holdfast, name)
    own = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    assert own
    assert not own.startswith(f"{name}("), "made by @dataclass"
    pages = (DOCS / "reference").glob("*.md")
    assert any(re.search(rf"`[^`\n]*\b{name}\b", page.read_text("utf-8")) for page in pages)


@pytest.mark.parametrize(
    "kind",
    [App, Decorators, Job, holdfast.Handle, holdfast.Group, holdfast.Context, holdfast.BatchContext],
)
def test_every_public_method_is_in_the_reference(kind: type) -> None:
    text = "".join(
        (DOCS / "reference" / page).read_text("utf-8") for page in ("app.md", "context.md", "groups.md")
    )
    for name in vars(kind):
        awaited = name.removesuffix("_sync")
        if not name.startswith("_") and name not in UNDOCUMENTED:
            assert re.search(rf"`\w+\.{awaited}\b", text), f"{kind.__name__}.{name}"


def test_every_code_of_an_error_is_in_the_reference() -> None:
    page = (DOCS / "reference/app.md").read_text("utf-8")
    assert [code for code in get_args(Code) if f"`{code}`" not in page] == []


# Words between the parts of Holdfast, on what users hold.
UNDOCUMENTED = {"declared", "declared_kinds", "declared_limits", "run", "run_sync", "schema"}


def test_every_public_attribute_of_an_app_is_in_the_reference() -> None:
    text = (DOCS / "reference/app.md").read_text("utf-8")
    names = {name for name in vars(App("embedded")) if not name.startswith("_")}
    assert [name for name in names - UNDOCUMENTED if f"`app.{name}`" not in text] == []


def test_type_checkers_know_the_very_options_that_a_kind_of_job_takes() -> None:
    taken, known = KindOptions.__annotations__, JobOptions.__annotations__
    # `app.job` with a batch has a signature of its own.
    assert {name: taken[name] for name in taken if name not in ("asked", "batch")} == known
    assert known.keys() - FlowOptions.__annotations__.keys() == {"on_lost", "isolate", "memory_limit"}


@pytest.mark.parametrize(
    ("page", "heading", "function"),
    [
        ("reference/app.md", "App(…)", App),
        ("reference/app.md", "@app.job(…)", KindOptions),
        ("reference/app.md", "job.using(…)", Job.using),
        ("reference/app.md", "app.worker(…)", App.worker),
        ("reference/app.md", "app.worker(…)", App.run_worker),
        ("reference/app.md", "WorkerOptions(…)", WorkerOptions),
        ("reference/context.md", "Retry", Retry),
        ("reference/context.md", "exponential", exponential),
        ("reference/context.md", "polynomial", polynomial),
    ],
)
def test_every_option_is_documented_with_its_default(
    page: str, heading: str, function: Callable[..., Any]
) -> None:
    [section] = re.findall(
        rf"^## `{re.escape(heading)}`\n(.*?)(?=^## |\Z)",
        (DOCS / page).read_text("utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", section, re.MULTILINE)
    parameters = inspect.signature(function).parameters.values()
    assert dict(rows) == {
        parameter.name: written(default_of(parameter, function))
        for parameter in parameters
        if parameter.name not in ("self", "function")
    }


def default_of(parameter: inspect.Parameter, function: Callable[..., Any]) -> object:
    """A dataclass makes some of its defaults each time."""
    return getattr(function(), parameter.name) if is_dataclass(function) else parameter.default


def written(value: object) -> str:
    match value:
        case None | ():
            return "none"
        case timedelta():
            return compact(value)
        case str() | dict():
            return f"`{value!r}`".replace("'", '"')
        case bool() | int() | float():
            return f"`{value}`"
        case _ if value == exponential():
            return "`exponential()`"
        case _ if is_dataclass(value) and not isinstance(value, type):
            return ", ".join(written(part) for part in asdict(value).values())
        case _:
            raise AssertionError(f"how is {value!r} written?")


LOOK = """
import socket, sys, threading, warnings

def refuse(*_):
    raise AssertionError("something was opened")

socket.socket.connect = refuse
import holdfast

app = holdfast.App()
assert threading.active_count() == 1
print(*sorted({name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)))
"""


def test_importing_opens_nothing_and_brings_only_what_is_needed() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOOK],
        capture_output=True,
        text=True,
        env={},
        timeout=60,
        check=True,
    )
    brought = {name for name in done.stdout.split() if not name.startswith("_") and "cython" not in name}
    assert {"holdfast", "psycopg", "msgspec"} <= brought
    assert brought <= {"holdfast", "psycopg", "psycopg_binary", "psycopg_c", "msgspec"} | {
        "typing_extensions",
        "cronsim",
    }
