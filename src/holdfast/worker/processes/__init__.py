"""Child processes for handlers that must be killable, or that would hold the interpreter for too long.

In the worker, `pool` hands runs to `children` when their `turns` come, and `child_process` looks after one
child. `child_main` is what a child runs. Their `messages` name the handler by a `reference` and bring back a
`pickled_error`.
"""

from holdfast.worker.processes.pool import Processes

__all__ = ["Processes"]
