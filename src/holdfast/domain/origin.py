"""Reads the origin of a job: what fired it, what it follows or repeats, and its headers."""

import json
from typing import Any

import msgspec


def read_origin(origin: str | None) -> dict[str, Any]:
    """Empty for a job that has none, and for one that was written by hand and is no object."""
    if not origin:
        return {}
    try:
        read = msgspec.json.decode(origin)
    except msgspec.DecodeError:  # Postgres keeps numbers that are beyond a float, or have thousands of digits
        read = json.loads(origin, parse_int=_whole)
    return read if isinstance(read, dict) else {}


def _whole(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:  # more digits than Python reads as an int
        return float(digits)
