"""Which queues a worker serves and with how many slots, and what is worth saying about that at its start."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

SLOTS = 100


def slots_for(queues: Iterable[str], slots: Mapping[str, int]) -> dict[str, int]:
    """These queues, with 100 slots each where nothing else is said."""
    return {queue: slots.get(queue, SLOTS) for queue in queues}


def remarks(served: Iterable[str], named: Iterable[str], slots: Mapping[str, int]) -> list[str]:
    """`named` are the queues of the app's jobs."""
    served, named = set(served), set(named)
    said = [
        f'no job of this app names the queue "{queue}"{_near(queue, named)}'
        for queue in sorted(served - named)
    ]
    said += [
        f'slots are set for the queue "{queue}", which this worker does not serve{_near(queue, served)}'
        for queue in sorted(slots.keys() - served)
    ]
    if left_out := sorted(named - served):
        said.append("queues of this app that this worker leaves out: " + ", ".join(left_out))
    return said


def _near(queue: str, others: set[str]) -> str:
    near = get_close_matches(queue, sorted(others), n=1)
    return f'; did you mean "{near[0]}"?' if near else ""
