"""What the jobs of a way do, and the bare thing beside it does: the same statement, the same work."""

import time

PAYMENT = "create table payment (number int not null, cents int not null)"
PAY = "insert into payment (number, cents) values (%(number)s, 1200)"
PAY_NAMED = "insert into payment (number, cents) values (:number, 1200)"

SESSION_SLOTS = 8
"""How many use an engine at once. Both sides give its pool as many connections, as the documentation says."""

SLEEP_SECONDS = 0.001
COMPUTE_SECONDS = 0.02


def compute() -> None:
    """So much CPU time, however busy the machine is."""
    ends = time.thread_time() + COMPUTE_SECONDS
    while time.thread_time() < ends:
        sum(range(1_000))
