"""Which queues a worker serves and with how many slots, and what is worth saying about that at its start."""

from collections.abc import Iterable, Mapping

from holdfast.domain.did_you_mean import did_you_mean
from holdfast.errors import InvalidInput


class DefaultSlots(int):
    """A number of slots that nobody has set. `Slots` may go beyond it for jobs that end at once."""


SLOTS = DefaultSlots(100)
"""How many jobs of a queue run at once in a worker, unless it is set."""

QueuesAsked = Mapping[str, int] | Iterable[str]
"""Queues with how many of their jobs may run at once, or only their names."""


def slots_for(queues: Iterable[str], slots: Mapping[str, int]) -> dict[str, int]:
    """These queues, with the default number of slots where nothing else is set."""
    return {queue: slots.get(queue, SLOTS) for queue in queues}


def read_queues(queues: object, slots: Mapping[str, int]) -> Mapping[str, int]:
    """What a caller has asked for: a mapping as it is, names with the slots that are set for them."""
    if isinstance(queues, Mapping):
        return queues
    if isinstance(queues, str) or not isinstance(queues, Iterable):
        raise InvalidInput(f'queues is {queues!r}: give {{"mail": 20, "pdf": 2}}, or names, ["mail", "pdf"]')
    return slots_for(queues, slots)


def remarks(
    served: Iterable[str],
    named: Iterable[str],
    slots_of_app: Mapping[str, int],
    slots_of_worker: Mapping[str, int],
) -> list[str]:
    """`named` are the queues of the app's jobs: the app may set slots of each, also for other workers."""
    served, named = set(served), set(named)
    said = [
        f'no job of this app names the queue "{queue}"{did_you_mean(queue, named)}'
        for queue in sorted(served - named)
    ]
    unserved = (slots_of_app.keys() - named) | slots_of_worker.keys()
    said += [
        f'slots are set for the queue "{queue}", which this worker does not serve'
        f"{did_you_mean(queue, served)}"
        for queue in sorted(unserved - served)
    ]
    if left_out := sorted(named - served):
        said.append("queues of this app that this worker leaves out: " + ", ".join(left_out))
    return said
