"""Which log lines of a run are kept with its job, and how many."""

from typing import Final, Literal, get_args

from holdfast.domain.light_value import LightValue
from holdfast.domain.states import RunOutcome
from holdfast.errors import InvalidInput

KeepLogs = Literal["never", "on_failure", "always"]

LINES: Final = 1_000
"""How many lines of a run are kept: the newest."""
CHARACTERS: Final = 256 * 1024
"""How long they are together, in characters of their messages."""
LINE_CHARACTERS: Final = 16_000
"""How long one line is; of a longer one the end is cut off."""

_FINE: Final[frozenset[RunOutcome]] = frozenset({"succeeded", "snoozed", "released"})


class KeptLine(LightValue, frozen=True):
    """One line as it is stored. `time` is in seconds since 1970, by the clock of the worker."""

    time: float
    level: str
    logger: str
    message: str


def read_keep_logs(value: object) -> KeepLogs:
    for choice in get_args(KeepLogs):
        if value == choice:
            return choice  # type: ignore[no-any-return]  # one of the words
    raise InvalidInput(f'keep_logs is {value!r}: give "never", "on_failure" or "always"')


def is_kept(keep: KeepLogs, outcome: RunOutcome | None) -> bool:
    """Whether the lines of a run that ended so are kept. None: its lease was lost, and another run decides
    what becomes of the job.
    """
    return keep == "always" or (keep == "on_failure" and outcome not in _FINE)
