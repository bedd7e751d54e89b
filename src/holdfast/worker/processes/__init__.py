"""Child processes for handlers that must be killable, or that would hold the interpreter for too long.

In the worker, `pool` makes calls and hands them to `children`, where each `crew` puts them into its
`call_queue`; `child_process` looks after one child. `child_main` is what a child runs: it takes its calls
from the queue itself, and talks to the worker over its `worker_link`. Their `messages` name the handler by a
`reference` and bring back a `pickled_error`.
"""

from holdfast.worker.processes.pool import Processes

__all__ = ["Processes"]
