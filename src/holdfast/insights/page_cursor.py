"""Where the next page of a list begins, as a text that callers pass back and do not read."""

import base64
import json

from holdfast.errors import InvalidInput


def cursor_at(job: int) -> str:
    """For the page of jobs before this one."""
    return base64.urlsafe_b64encode(json.dumps({"before": job}).encode()).decode().rstrip("=")


def read_cursor(cursor: object) -> int:
    try:
        padded = str(cursor) + "=" * (-len(str(cursor)) % 4)
        job = json.loads(base64.urlsafe_b64decode(padded))["before"]
    except (ValueError, KeyError, TypeError):
        job = None
    if not isinstance(job, int) or isinstance(job, bool):
        raise InvalidInput(f"after is {cursor!r}: give the `next` of a page")
    return job
