"""How a kind looks to people."""

from collections.abc import Iterator
from typing import assert_never

from holdfast.cli.formats import moment
from holdfast.cli.state_look import Cell
from holdfast.cli.table import Columns
from holdfast.domain.backoff import Backoff, Exponential, Fixed, Listed, Polynomial
from holdfast.domain.duration import compact
from holdfast.insights.kind_records import KindRecord

COLUMNS = Columns(
    ("KIND", "STYLE", "QUEUE", "TRIES", "TIMEOUT", "WORKERS", "SEEN (UTC)", "PARAMETERS"),
    flexible=("PARAMETERS", "KIND", "QUEUE"),
    spare=("SEEN (UTC)", "TIMEOUT", "STYLE"),
)
PARAMETER_HEADS = ("PARAMETER", "TYPE", "REQUIRED", "SECRET")


def row(kind: KindRecord) -> tuple[str, ...]:
    return (
        kind.name,
        kind.style,
        kind.queue,
        str(kind.max_attempts),
        "" if kind.timeout is None else compact(kind.timeout),
        str(kind.workers) if kind.workers else Cell("none", "yellow"),
        moment(kind.last_seen_at),
        ", ".join(each.name if each.is_required else f"[{each.name}]" for each in kind.parameters),
    )


def facts(kind: KindRecord) -> Iterator[tuple[str, str]]:
    """What `show` says, line by line."""
    yield "queue", f"{kind.queue}, priority {kind.priority}"
    yield "retries", _retries(kind)
    if kind.timeout is not None:
        yield "timeout", compact(kind.timeout)
    if kind.keep is not None:
        yield "kept", f"for {compact(kind.keep)}" if kind.keep else "not at all"
    if kind.on_lost == "fail":
        yield "lost", "a job whose worker is lost fails, and does not run again"
    if kind.tags:
        yield "tags", ", ".join(kind.tags)
    if kind.limits:
        yield (
            "limits",
            ", ".join(
                f"{each.name} by {' and '.join(each.by)}" if each.by else each.name for each in kind.limits
            ),
        )
    yield "workers", _workers(kind.workers)
    yield "seen", f"first {moment(kind.first_seen_at)}, last {moment(kind.last_seen_at)} UTC"
    yield "release", f"Holdfast {kind.version}"
    if "/return" in kind.secrets:
        yield "result", "secret"
    yield "enqueue", enqueue_command(kind)


def parameter_rows(kind: KindRecord) -> list[tuple[str, ...]]:
    return [
        (
            each.name,
            each.type,
            "yes" if each.is_required else "",
            _secret(kind, each.name) if each.is_secret else "",
        )
        for each in kind.parameters
    ]


def enqueue_command(kind: KindRecord) -> str:
    """To be copied and filled in."""
    given = [
        f"-p {each.name}{'=' if each.type.startswith('text') else ':='}…"
        for each in kind.parameters
        if each.is_required
    ]
    return " ".join(["holdfast enqueue", kind.name, *given])


def _secret(kind: KindRecord, name: str) -> str:
    places = [path.removeprefix(f"/{name}") for path in kind.secrets if path.split("/")[1:2] == [name]]
    return (
        "all of it"
        if "" in places or not places
        else ", ".join(place.lstrip("/").replace("/", ".") for place in places)
    )


def _workers(count: int) -> str:
    if count == 0:
        return "no live worker knows it"
    return "1 live worker knows it" if count == 1 else f"{count} live workers know it"


def _retries(kind: KindRecord) -> str:
    if kind.max_attempts == 1:
        return "none: one attempt"
    return f"at most {kind.max_attempts} attempts; {_waits(kind.backoff)}"


def _waits(backoff: Backoff) -> str:
    match backoff:
        case Exponential(base, factor, cap):
            return f"retries after {compact(base)}, then {factor:g} times as long, up to {compact(cap)}"
        case Fixed(length):
            return f"each retry after {compact(length)}"
        case Listed(lengths):
            return f"retries after {', '.join(map(compact, lengths))}"
        case Polynomial(power, floor):
            return f"retry n after n^{power:g} seconds and {compact(floor)}"
        case _:
            assert_never(backoff)
