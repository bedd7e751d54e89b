"""What went wrong, in one line of the log, which shows where there is more."""

from holdfast.domain.failure import Failure

_LIMIT = 300
_GROUP_LIMIT = 1_000


class Start(str):
    """The start of an error's text, as JSON has it. Text shows with an ellipsis where there is more."""

    __slots__ = ("shown",)

    shown: str

    @classmethod
    def of(cls, text: str, limit: int = _LIMIT) -> "Start":
        lines = text.splitlines() or [""]
        start = cls(lines[0][:limit])
        start.shown = str(start)
        if len(lines[0]) > limit:
            start.shown += "…"
        elif any(line.strip() for line in lines[1:]):
            start.shown += " …"
        return start


def first_line(failure: Failure) -> Start:
    """What went wrong; for a group of errors, which says nothing by itself, what is in it."""
    line = Start.of(f"{failure.type}: {failure.message}" if failure.type else failure.message)
    if not (failure.type and failure.type.endswith("ExceptionGroup")):
        return line
    inner = [Start.of(cause) for cause in failure.causes if cause]
    group = Start.of(f"{line}: {'; '.join(inner)}", _GROUP_LIMIT)
    group.shown = Start.of(f"{line.shown}: {'; '.join(part.shown for part in inner)}", _GROUP_LIMIT).shown
    return group
