"""The subscribers of each channel, and how they are called back. The Listener speaks with Postgres."""

import asyncio
import logging
from collections.abc import Callable, Collection

from holdfast.postgres.notification import Gap, Notified, channel_name

Callback = Callable[[Notified | Gap], None]

logger = logging.getLogger("holdfast.postgres")


class Subscription:
    """One callback on one channel. Its first value is a Gap, and so is the first after each interruption."""

    def __init__(self, channel: str, callback: Callback, cancel: "Callable[[Subscription], None]") -> None:
        self.channel = channel
        self._callback = callback
        self._cancel = cancel
        self._ready = asyncio.Event()
        self._is_cancelled = False

    async def ready(self) -> None:
        """Until notifications arrive, again after a loss. Bound this: without a server it never happens."""
        await self._ready.wait()

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    def cancel(self) -> None:
        """No more calls from now on, not even for what has already arrived. Harmless when repeated."""
        if not self._is_cancelled:
            self._is_cancelled = True
            self._ready.clear()
            self._cancel(self)

    def open(self) -> None:
        if not self._is_cancelled and not self.is_ready:
            self._ready.set()
            self.tell(Gap(self.channel))

    def interrupt(self) -> None:
        self._ready.clear()

    def tell(self, value: Notified | Gap) -> None:
        try:
            self._callback(value)
        except Exception:  # one subscriber's mistake must not reach another
            logger.exception("a subscriber of channel %r failed on %r", self.channel, value)


class Subscriptions:
    """All subscriptions, by channel. `stirred` is set whenever the wanted channels may have changed.

    Callbacks may subscribe and cancel, so every loop runs over a copy and checks again before each call.
    """

    def __init__(self, stirred: asyncio.Event) -> None:
        self._stirred = stirred
        self._by_channel: dict[str, list[Subscription]] = {}

    @property
    def channels(self) -> Collection[str]:
        return self._by_channel.keys()

    def add(self, channel: str, callback: Callback) -> Subscription:
        subscription = Subscription(channel_name(channel), callback, self._remove)
        self._by_channel.setdefault(channel, []).append(subscription)
        self._stirred.set()
        return subscription

    def deliver(self, channel: str, payload: str) -> None:
        for subscription in self._of(channel):
            if subscription.is_ready:
                subscription.tell(Notified(channel, payload))

    def open(self, channels: Collection[str]) -> None:
        """These channels are in force: tell the subscribers that have not been told."""
        for channel in tuple(channels):
            for subscription in self._of(channel):
                subscription.open()

    def interrupt(self) -> None:
        for channel in self._by_channel:
            for subscription in self._of(channel):
                subscription.interrupt()

    def _of(self, channel: str) -> tuple[Subscription, ...]:
        return tuple(self._by_channel.get(channel, ()))

    def _remove(self, subscription: Subscription) -> None:
        others = self._by_channel[subscription.channel]
        others.remove(subscription)
        if not others:
            del self._by_channel[subscription.channel]
        self._stirred.set()
