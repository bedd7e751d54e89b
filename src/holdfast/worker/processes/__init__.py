"""Child processes for handlers that must be stoppable, or that would hold the interpreter for too long.

`pool` hands runs to children and `tending` keeps one child, both in the worker; `serving` is what a child
does. Between them go `messages`, which name the handler by a `reference` and bring back what it `raised`.
"""

from holdfast.worker.processes.pool import Processes

__all__ = ["Processes"]
