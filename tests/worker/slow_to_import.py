"""A module that takes longer to import than its handler may run for."""

import time

time.sleep(2.5)


def quick() -> str:
    return "done"
