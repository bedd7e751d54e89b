"""How the processes of one supervisor report to it: over a socket for each, as length and body.

A process reports every second, at once when it is asked, and when it ends. What it has reported stays in the
supervisor's sums after it has died; what it counted since its last report dies with it.
"""

import logging
import os
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

import msgspec

from holdfast.metrics.figures import Figures
from holdfast.metrics.process_report import ProcessReport

VARIABLE: Final = "HOLDFAST_METRICS_FD"
REPORT: Final = b"r"
REPORT_WITH_DATABASE: Final = b"d"

_log = logging.getLogger("holdfast.metrics")

_PACE: Final = 1.0
_SEND_SECONDS: Final = 5.0
_HEAD: Final = 4
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ProcessReport)


class ReportSender:
    """The worker process's end. A thread sends, because a handler may block the event loop."""

    def __init__(
        self, line: socket.socket, report: Callable[[], ProcessReport], database: Callable[[], Figures]
    ) -> None:
        self._line = line
        self._report = report
        self._database = database
        self._answers = 0
        self._lock = threading.Lock()
        line.settimeout(_SEND_SECONDS)

    @staticmethod
    def line_from_environment() -> socket.socket | None:
        """Taken out of the environment: what this process starts does not report."""
        number = os.environ.pop(VARIABLE, None)
        if number is None:
            return None
        line = socket.socket(fileno=int(number))
        line.set_inheritable(False)
        return line

    def start(self) -> None:
        """The first report comes before the worker starts: from then on silence means that it is frozen."""
        self._send(with_database=False)
        threading.Thread(target=self._serve, name="holdfast-metrics", daemon=True).start()

    def finish(self) -> None:
        """The last report, after everything was counted."""
        self._send(with_database=False)
        with self._lock, suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        while True:
            try:
                asked = self._line.recv(64) if select.select([self._line], [], [], _PACE)[0] else None
            except (OSError, ValueError):
                return
            if asked == b"":
                return  # the supervisor is gone
            self._answers += len(asked or b"")
            if not self._send(with_database=REPORT_WITH_DATABASE in (asked or b"")):
                return

    def _send(self, *, with_database: bool) -> bool:
        try:
            report = self._report()
            report.answers = self._answers
            if with_database:
                report.database = self._database()
            body = _encoder.encode(report)
            with self._lock:
                self._line.sendall(len(body).to_bytes(_HEAD) + body)
        except OSError:
            return False  # gone, or frozen for seconds: half a report makes the line useless
        except Exception:  # noqa: BLE001  # told; the next one may work
            _log.exception("this process could not report its metrics")
        return True


class ReportReceiver:
    """The supervisor's end of one process's line: `hear` on its event loop, `ask` from any thread."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self.pid = pid
        self._line = line
        self._buffer = bytearray()
        self._asked = 0
        self._heard = threading.Condition()
        self.latest: ProcessReport | None = None
        self.heard_at = monotonic()

    def hear(self) -> bool:
        """Read what is there. False when nothing more will come."""
        try:
            while chunk := self._line.recv(1 << 16):
                self._buffer += chunk
                self._read()
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def ask(self, *, with_database: bool) -> int | None:
        """Answers what to give to `wait_for`; None if the process cannot be asked now."""
        with self._heard:
            try:
                self._line.send(REPORT_WITH_DATABASE if with_database else REPORT)
            except OSError:
                return None
            self._asked += 1
            return self._asked

    def wait_for(self, question: int, until: float) -> None:
        """Until the question is answered, or this moment of the monotonic clock has come."""
        with self._heard:
            self._heard.wait_for(
                lambda: self.latest is not None and self.latest.answers >= question,
                max(until - monotonic(), 0.0),
            )

    def _read(self) -> None:
        while len(self._buffer) >= _HEAD:
            end = _HEAD + int.from_bytes(self._buffer[:_HEAD])
            if len(self._buffer) < end:
                return
            report = _decoder.decode(self._buffer[_HEAD:end])
            del self._buffer[:end]
            with self._heard:
                self.latest, self.heard_at = report, monotonic()
                self._heard.notify_all()
