"""A worker as a program: `python -m acceptance.run_worker acceptance.shop '{"lease": 2.0}'`, in seconds."""

import asyncio
import json
import logging
import sys
from datetime import timedelta
from importlib import import_module
from typing import Any

from holdfast import App, WorkerOptions
from holdfast.worker.lease_keeper import Beats


def options(
    *,
    lease: float = 10.0,
    beat: float = 0.4,
    leader_lease: float = 2.0,
    poll: float = 5.0,
    grace: float = 10.0,
    slots: int = 20,
    is_leading_allowed: bool = True,
) -> WorkerOptions:
    """Options of a fast worker, so that tests need not wait. A lease that no worker
    should lose is longer than any pause of a busy machine.
    """
    return WorkerOptions(
        queues={"default": slots},
        beats=Beats(timedelta(seconds=lease), timedelta(seconds=beat)),
        leader_lease=timedelta(seconds=leader_lease),
        poll=timedelta(seconds=poll),
        grace=timedelta(seconds=grace),
        is_leading_allowed=is_leading_allowed,
    )


def main(module: str, choices: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    chosen: dict[str, Any] = json.loads(choices)
    app: App = import_module(module).app
    asyncio.run(app.run_worker(options=options(**chosen)))


if __name__ == "__main__":
    main(*sys.argv[1:])
