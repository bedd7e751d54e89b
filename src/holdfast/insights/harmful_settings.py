"""Settings of a server or a role that lose jobs, or slow everything down, and why."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

Level = Literal["error", "warning", "note"]

_MEGABYTES: Final[Mapping[str, int]] = {"MB": 1, "GB": 1024, "TB": 1024 * 1024}
_SMALLEST_WAL = 512
_ROLE = "Set it to {} for this role and database."
_SYSTEM = "alter system set {} = {}, and reload."


class Harm(NamedTuple):
    """A setting that does harm: `is_harmful` judges its value, with its unit as pg_settings has it."""

    name: str
    level: Level
    is_harmful: Callable[[str], bool]
    why: str
    advice: str


def _is(value: str) -> Callable[[str], bool]:
    return lambda found: found == value


def _below(seconds: int) -> Callable[[str], bool]:
    """0 means without an end."""
    return lambda found: 0 < int(found.partition(" ")[0]) < seconds * 1000


def _is_small(found: str) -> bool:
    size, _, unit = found.partition(" ")
    return int(size) * _MEGABYTES.get(unit, 1) < _SMALLEST_WAL


HARMFUL: Final[tuple[Harm, ...]] = (
    Harm(
        "fsync",
        "error",
        _is("off"),
        "a crash of the machine may lose or damage jobs.",
        _SYSTEM.format("fsync", "on"),
    ),
    Harm(
        "full_page_writes",
        "error",
        _is("off"),
        "a crash of the machine may damage tables.",
        _SYSTEM.format("full_page_writes", "on"),
    ),
    Harm(
        "synchronous_commit",
        "error",
        _is("off"),
        "a crash may lose jobs whose enqueue had returned.",
        _ROLE.format("on"),
    ),
    Harm(
        "default_transaction_read_only",
        "error",
        _is("on"),
        "no job can be written or run.",
        _ROLE.format("off"),
    ),
    Harm(
        "autovacuum",
        "warning",
        _is("off"),
        "dead rows are never removed, and every query becomes slower.",
        _SYSTEM.format("autovacuum", "on"),
    ),
    Harm(
        "track_counts",
        "warning",
        _is("off"),
        "autovacuum sees no dead rows, and every query becomes slower.",
        _SYSTEM.format("track_counts", "on"),
    ),
    Harm(
        "max_wal_size",
        "warning",
        _is_small,
        "checkpoints come so often that writing slows down.",
        _SYSTEM.format("max_wal_size", "'2GB'"),
    ),
    Harm(
        "statement_timeout",
        "warning",
        _below(10),
        "statements of workers that take longer are cancelled, and tried again for ever.",
        _ROLE.format("0, or to more than 10 s,"),
    ),
    Harm(
        "transaction_timeout",
        "warning",
        _below(60),
        "transactions of workers that take longer are cut off, and tried again for ever.",
        _ROLE.format("0, or to more than a minute,"),
    ),
    Harm(
        "idle_in_transaction_session_timeout",
        "note",
        _below(10),
        "your own connections are cut off if your code pauses for so long inside of a transaction.",
        "Holdfast's own sessions set 60 s.",
    ),
    Harm(
        "default_transaction_isolation",
        "note",
        lambda found: found != "read committed",
        "enqueues in your own transactions have this level; Holdfast's own sessions choose theirs.",
        "",
    ),
)


def harms(settings: Mapping[str, str]) -> Iterator[tuple[Harm, str]]:
    """Those that these settings do, each with its value."""
    for harm in HARMFUL:
        value = settings.get(harm.name)
        if value is not None and harm.is_harmful(value):
            yield harm, value
