"""Where the next page of a list begins, as a text that callers pass back and do not read."""

import base64
import json

from holdfast.errors import InvalidInput


def cursor_at(job: int) -> str:
    """For the page of jobs before this one."""
    return _written(job)


def read_cursor(cursor: object) -> int:
    job = _read(cursor)
    if not isinstance(job, int) or isinstance(job, bool):
        raise _wrong(cursor)
    return job


def key_cursor(key: str) -> str:
    """For the keys of a limit behind this one."""
    return _written([key])


def read_key_cursor(cursor: object) -> str:
    match _read(cursor):
        case [str() as key]:
            return key
        case _:
            raise _wrong(cursor)


def failure_cursor(place: str | int, fingerprint: str) -> str:
    """For the groups of failures behind this one, which is at that time, or at that count."""
    return _written([place, fingerprint])


def read_failure_cursor(cursor: object) -> tuple[str | int, str]:
    match _read(cursor):
        case [str() | int() as place, str() as fingerprint]:
            return place, fingerprint
        case _:
            raise _wrong(cursor)


def log_cursor(run: int, number: int) -> str:
    """For the lines behind this line of a run."""
    return _written([run, number])


def read_log_cursor(cursor: object) -> tuple[int, int]:
    match _read(cursor):
        case [int() as run, int() as number]:
            return run, number
        case _:
            raise _wrong(cursor)


def _written(before: object) -> str:
    return base64.urlsafe_b64encode(json.dumps({"before": before}).encode()).decode().rstrip("=")


def _read(cursor: object) -> object:
    try:
        padded = str(cursor) + "=" * (-len(str(cursor)) % 4)
        before: object = json.loads(base64.urlsafe_b64decode(padded))["before"]
    except (ValueError, KeyError, TypeError):
        return None
    return before


def _wrong(cursor: object) -> InvalidInput:
    return InvalidInput(f"after is {cursor!r}: give the `next` of a page")
