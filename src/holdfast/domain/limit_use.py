"""What a job has to pass before it may run, as it is stored with the job."""

from typing import NamedTuple


class LimitUse(NamedTuple):
    """A limit by its name, the job's key there ("" if the limit has none), and what its start costs."""

    limit: str
    key: str = ""
    cost: int = 1
