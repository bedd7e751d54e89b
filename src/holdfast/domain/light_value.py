"""What is made for every job, many thousand times in a second."""

import msgspec


class LightValue(msgspec.Struct, frozen=True, gc=False):
    """A value like a frozen dataclass, made in a sixth of its time and a third of a named tuple's. The
    garbage collector never looks at one, so one must never hold something that holds it in turn: what users
    get, and may keep wherever they like, says gc=True.
    """
