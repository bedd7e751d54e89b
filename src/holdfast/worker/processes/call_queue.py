"""Calls on their way to child processes: a socket from which all children of a crew take their next call
themselves. The kernel hands each packet to one child, and keeps it for the others when a child dies before it
takes one. So calls that wait are lost with nobody, no child waits for the worker, and the child that is free
first takes the next.
"""

import errno
import socket
import struct
import sys
from collections import deque

from holdfast.worker.processes.messages import CallHandler, read_body

NUMBER = struct.Struct(">Q")

# Calls of any size share the room that the kernel has for all of them. One that is larger than this goes the
# usual way, once a child has said that it takes it.
LARGEST_PACKET = 32 * 1024
LEAVE = 0
"""In place of a call's number: whichever child takes this packet ends."""

# macOS has no packets with the order of a stream. Between two processes of one host, those of the other kind
# keep their order, too, and none is lost.
_KIND = socket.SOCK_SEQPACKET if sys.platform == "linux" else socket.SOCK_DGRAM
_FULL = (errno.EAGAIN, errno.EWOULDBLOCK, errno.ENOBUFS)


class CallQueue:
    """The worker's end. What finds no room waits here until a child has taken a packet."""

    def __init__(self) -> None:
        # Its other end stays open here as well, to take back what no child has taken.
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, _KIND)
        self._buffer = bytearray(LARGEST_PACKET)
        self._unsent: deque[bytes] = deque()

    def fileno(self) -> int:
        """Of the end that children read from."""
        return self._theirs.fileno()

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()

    def put(self, packet: bytes) -> None:
        if self._unsent or not self._is_sent(packet):
            self._unsent.append(packet)

    def go_on(self) -> None:
        """A child has taken a packet: there may be room for another one."""
        while self._unsent and self._is_sent(self._unsent[0]):
            self._unsent.popleft()

    def take_back(self) -> list[bytes]:
        """All packets that no child has taken, in their order."""
        taken = []
        while True:
            try:
                size = self._theirs.recv_into(self._buffer, 0, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            taken.append(bytes(self._buffer[:size]))
        taken += self._unsent
        self._unsent.clear()
        return taken

    def _is_sent(self, packet: bytes) -> bool:
        try:
            self._ours.send(packet, socket.MSG_DONTWAIT)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            return False
        return True


def packet_of(number: int, call: bytes = b"") -> bytes:
    """Without its call if that is too large, or if the packet is none."""
    return NUMBER.pack(number) + (call if len(call) <= LARGEST_PACKET - NUMBER.size else b"")


def is_whole(packet: bytes) -> bool:
    return len(packet) > NUMBER.size


def number_of(packet: bytes) -> int:
    (number,) = NUMBER.unpack_from(packet)
    return int(number)


class CallTaker:
    """A child's end."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)  # its only form
        self._view = memoryview(bytearray(LARGEST_PACKET))

    def close(self) -> None:
        self._socket.close()

    def take(self, *, is_patient: bool) -> tuple[int, CallHandler | None] | None:
        """The next number and its call: none with LEAVE, and none if it comes the other way. None if nothing
        is there now, for a child that is not patient.
        """
        try:
            size = self._socket.recv_into(self._view, 0, 0 if is_patient else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        (number,) = NUMBER.unpack_from(self._view)
        return number, read_body(self._view[NUMBER.size : size]) if size > NUMBER.size else None
