"""The base of values that are made for every job, thousands of times a second."""

import msgspec


class LightValue(msgspec.Struct, frozen=True, gc=False):
    """A value like a frozen dataclass, made in a sixth of its time and a third of a named tuple's. The
    garbage collector does not track it, so it must never be part of a reference cycle. Values that users
    get, and may keep anywhere, say gc=True.
    """
