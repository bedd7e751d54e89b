"""A user of an embedded server in a process of its own. Speaks JSON lines: see the `users` fixture.

Given how to start, it waits for a line, starts, tells what came of it, waits for a line, and leaves.
"""

import json
import os
import sys
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.postgres.embedded import EmbeddedServer


def main(options: dict[str, Any]) -> None:
    # Root's rights end here and not before: others may not reach the interpreter and its modules.
    if "as_user" in options:
        os.setgroups([])
        os.setuid(options.pop("as_user"))
    sys.stdin.readline()
    try:
        server = EmbeddedServer.start(**options)
    except HoldfastError as error:
        tell(error=type(error).__name__, message=str(error))
        return
    tell(dsn=server.dsn, pid=server.pid, user=os.geteuid())
    if sys.stdin.readline() == "leave\n":
        server.stop()
    # Otherwise it is left to the end of the program.


def tell(**facts: object) -> None:
    print(json.dumps(facts), flush=True)  # noqa: T201 - this is how it speaks


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
