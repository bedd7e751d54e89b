"""The notifier of callers without an event loop: sends from a thread of its own."""

import atexit
import queue
import threading
import time

from holdfast.errors import DatabaseClosed, DatabaseError
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.failure_log import FailureLog
from holdfast.postgres.schema import Schema
from holdfast.producer.nearby_workers import NearbyWorkers
from holdfast.producer.notifier import WAKING, log
from holdfast.producer.wake_ups import NotifyPace, wake


class BlockingNotifier:
    def __init__(
        self, database: BlockingDatabase, schema: Schema, nearby: NearbyWorkers | None = None
    ) -> None:
        self._database = database
        self._schema = schema
        self._nearby = nearby or NearbyWorkers()
        self._names: queue.SimpleQueue[set[str] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pace = NotifyPace()
        self._failures = FailureLog(log, WAKING)
        self._thread: threading.Thread | None = None

    def may_carry(self) -> bool:
        """Whether an enqueue that is sent now carries its own NOTIFY. If so, the caller must send it."""
        with self._lock:
            is_silent = self._names.empty() and self._pace.wait <= 0
            if is_silent:
                self._pace.sent()
            return is_silent

    def tell(self, names: set[str], *, is_notified: bool = False) -> None:
        """After the commit. `is_notified`: the enqueue has carried the NOTIFY."""
        self._nearby.tell(names)
        if is_notified:
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                # Opened here: a short script sends its last NOTIFY while Python shuts down, and then nothing
                # can be opened any more.
                try:
                    self._database.open()
                except DatabaseError as error:
                    # The jobs are committed: a caller that gets an error would write them again.
                    self._failures.failed(error)
                atexit.register(self.finish)
                self._thread = threading.Thread(target=self._send, name="holdfast-notifier", daemon=True)
                self._thread.start()
        self._names.put(names)

    def finish(self) -> None:
        """Wait until everything is sent, within a bound."""
        atexit.unregister(self.finish)
        thread = self._thread
        if thread is not None and thread.is_alive():
            self._names.put(None)
            thread.join(5)

    def _send(self) -> None:
        while (names := self._names.get()) is not None:
            together = set(names)
            is_last = False
            time.sleep(max(self._pace.wait, 0))
            self._pace.sent()
            while not self._names.empty():
                more = self._names.get()
                is_last = is_last or more is None
                together |= more or set()
            try:
                self._database.run(wake(self._schema, together))
                self._failures.worked()
            except DatabaseClosed as error:
                log.debug("a wake-up could not be sent, workers will poll: %s", error)
            except DatabaseError as error:
                self._failures.failed(error)
            if is_last:
                return
