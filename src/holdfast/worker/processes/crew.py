"""The children of a worker that have the same memory limit, or none, and the calls that they are to run.

A call is put into the crew's queue. The child that takes it says so before it does anything else, and from
then on the call shares its fate. What the crew knows of a call follows from what its children have said, and
from what is still in the queue.
"""

import asyncio
from collections.abc import Callable, Collection

from holdfast.domain.outcome import Released
from holdfast.worker.handler_requests import EndWith
from holdfast.worker.processes.call import Call
from holdfast.worker.processes.call_queue import LEAVE, CallQueue, number_of, packet_of
from holdfast.worker.processes.child_process import ChildProcess
from holdfast.worker.processes.messages import Begun, Ended, Left, Taken, ToWorker

# How long a child may take from taking a call to saying so: more only if it is frozen in between.
_WORD_SECONDS = 1.0


class Crew:
    """`on_free` is called whenever a child has ended a call."""

    def __init__(self, memory_limit: int | None, on_free: Callable[[], None]) -> None:
        self.memory_limit = memory_limit
        self.children: set[ChildProcess] = set()
        # The most calls at once since the last look at who is idle.
        self.most = 0
        self._on_free = on_free
        self._loop = asyncio.get_running_loop()
        self.queue = CallQueue()
        # Calls that no child has said to have taken, in the order of the queue.
        self._waiting: dict[int, Call] = {}
        self._running = 0
        # How many children were told to leave, and have not done so.
        self._leaving = 0
        # Calls that are not in the queue: for each the children that may have taken it.
        self._missing: dict[int, set[ChildProcess]] = {}
        self._search: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """All children are gone."""
        if self._search is not None:
            self._search.cancel()
        self.queue.close()
        for call in self._waiting.values():
            call.give(EndWith(Released()))

    @property
    def strength(self) -> int:
        """How many children will go on."""
        return len(self.children) - self._leaving

    @property
    def needs(self) -> int:
        """How many more children would have something to do."""
        return len(self._waiting) + self._running - self.strength

    def new_child(self) -> ChildProcess:
        child = ChildProcess(self.memory_limit, self.queue.fileno(), self.hear)
        self.children.add(child)
        return child

    def put(self, call: Call) -> None:
        self._waiting[call.number] = call
        self.most = max(self.most, len(self._waiting) + self._running)
        self.queue.put(call.packet)

    def dismiss_one(self) -> None:
        """Whichever child takes this. A child that the worker chose might just have taken a call."""
        self._leaving += 1
        self.queue.put(packet_of(LEAVE))

    def unbegun(self) -> list[Call]:
        taken = (child.call for child in self.children if child.call is not None)
        return [*self._waiting.values(), *(call for call in taken if not call.has_begun)]

    def withdraw(self, call: Call) -> bool:
        """Whether it will never begin. If not, it has been taken, or the search for it says that nobody has
        it: its answer comes.
        """
        if call.number not in self._waiting:
            return False
        if self._taken_out({call.number}):
            return True
        self._look_for_missing()
        return False

    def release_late(self, before: float) -> bool:
        """Give back the attempts of calls that have waited since before then, except those that children
        without a call are about to take. Returns whether there were any.
        """
        idle = sum(child.call is None for child in self.children)
        late = {call.number: call for call in list(self._waiting.values())[idle:] if call.since <= before}
        if not late and not (idle and self._waiting):
            return False
        # Even if none is late: should a child have been frozen or killed when it was woken for a packet, this
        # wakes another one.
        out = self._taken_out(late.keys())
        for number in out:
            late[number].give(EndWith(Released()))
        return bool(out)

    def gone(self, child: ChildProcess) -> None:
        """It has ended, and nothing that it said is unheard. A call that it had not begun costs no attempt,
        unless the child took it first of all: it is the likely reason then.
        """
        self.children.discard(child)
        call, child.call = child.call, None
        if call is not None:
            self._running -= 1
            call.child = None
            if call.has_begun or call.stop is not None or child.taken == 1:
                call.give(child.end)
            else:
                self._waiting[call.number] = call
                self.queue.put(call.packet)
        self._leaving = min(self._leaving, len(self.children))
        self._look_for_missing(child)
        if not (child.taken or child.has_left or child.was_killed) and self._waiting:
            # It could not even start.
            first = next(iter(self._waiting.values()))
            if self.withdraw(first):
                first.give(child.end)

    def hear(self, child: ChildProcess, message: ToWorker) -> None:
        match message:
            case Ended(number) if child.call is not None and child.call.number == number:
                call, child.call = child.call, None
                self._running -= 1
                call.give(message)
                self._on_free()
            case Taken(number, is_begun):
                taken = self._waiting.pop(number, None)
                if taken is None:
                    child.kill()  # it wrote into our connection
                    return
                self._running += 1
                child.call = taken
                child.taken += 1
                taken.taken_by(child)
                self.queue.go_on()
                if self._missing:
                    self._found(child, number)
                if is_begun:
                    taken.begin()
            case Begun(number) if child.call is not None and child.call.number == number:
                child.call.begin()
            case Left():
                child.has_left = True
                self._leaving = max(self._leaving - 1, 0)

    def _taken_out(self, numbers: Collection[int]) -> list[int]:
        """Which of these are taken out of the queue, and so will never begin."""
        out = []
        for packet in self.queue.take_back():
            number = number_of(packet)
            if number in numbers:
                del self._waiting[number]
                out.append(number)
            else:
                self.queue.put(packet)
        return out

    def _look_for_missing(self, dead: ChildProcess | None = None) -> None:
        """A child may have taken a call and died, or be frozen, before it could say so. Every living child is
        suspected until it says something else; what nobody has is put into the queue again.
        """
        for suspects in self._missing.values():
            suspects.discard(dead)
        there = set()
        for packet in self.queue.take_back():
            there.add(number_of(packet))
            self.queue.put(packet)
        for number in self._waiting:
            if number in there:
                self._missing.pop(number, None)
            elif number not in self._missing:
                self._missing[number] = set(self.children)
        self._put_missing()
        if self._missing and self._search is None:
            self._search = self._loop.call_later(_WORD_SECONDS, self._end_search)

    def _found(self, child: ChildProcess, number: int) -> None:
        self._missing.pop(number, None)
        for suspects in self._missing.values():
            suspects.discard(child)
        self._put_missing()

    def _end_search(self) -> None:
        """A child that is silent for so long, and is not known to run a call, is frozen: it must never begin
        what it may have taken.
        """
        self._search = None
        for suspects in self._missing.values():
            for child in list(suspects):
                if child.call is None:
                    child.kill()
                else:
                    suspects.discard(child)
        self._put_missing()

    def _put_missing(self) -> None:
        for number in [number for number, suspects in self._missing.items() if not suspects]:
            del self._missing[number]
            call = self._waiting[number]
            if call.stop is None:
                self.queue.put(call.packet)
            else:
                del self._waiting[number]
                call.give(Ended(number, is_too_late=True))
