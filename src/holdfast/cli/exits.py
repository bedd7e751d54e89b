"""What a script that called us learns from the exit code."""

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    UNHEALTHY = 5
    INTERRUPTED = 130
