"""Which notification wakes what in a worker. `storage/channels.py` says when each is sent.

`READY` wakes the fetcher for the named queue, `CANCEL` the lease keeper of the named worker, `LEADER` those
who may lead when the place is vacant; the channels that a `Chore` names wake that chore while this worker
leads. After a gap, in which notifications may have been missed, all of them are woken.
"""

from collections.abc import Callable, Iterable
from datetime import timedelta

from holdfast.postgres.listener import Listener
from holdfast.postgres.notification import Gap, Notified, notify
from holdfast.postgres.schema import Schema
from holdfast.storage.channels import Channel
from holdfast.worker.chores.chore import Chore, channels_of
from holdfast.worker.chores.leader import Leader
from holdfast.worker.connections import Connections
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.identity import Identity
from holdfast.worker.lease_keeper import LeaseKeeper

_PING = timedelta(seconds=30)


def new_listener(connections: Connections) -> Listener:
    """Off behind a pooler that gives each transaction another session: a LISTEN would hear nothing there."""
    calm, hints = connections.calm, connections.hints
    if not calm.pooler.keeps_sessions:
        return Listener.off("behind a transaction-mode pooler")
    listener = Listener(
        lambda: calm.dedicated(purpose="listener"),
        ping_interval=_PING,
        notify=lambda channel: hints.run(notify(channel)),
    )
    connections.availability.tell_of_silence(listener)
    return listener


def subscribe(
    listener: Listener,
    schema: Schema,
    identity: Identity,
    chores: Iterable[Chore],
    *,
    fetcher: Fetcher,
    leader: Leader,
    keeper: LeaseKeeper,
) -> None:
    def ready(news: Notified | Gap) -> None:
        fetcher.wake(news.payload if isinstance(news, Notified) else None)

    def cancelled(news: Notified | Gap) -> None:
        if isinstance(news, Gap) or news.payload == str(identity.id):
            keeper.poke()

    def changed(news: Notified | Gap) -> None:
        if isinstance(news, Gap) or news.payload == "vacant":
            leader.is_wanted()

    def waking(channel: Channel) -> Callable[[Notified | Gap], None]:
        return lambda _: leader.wake(channel)

    listener.subscribe(Channel.READY.in_schema(schema), ready)
    listener.subscribe(Channel.CANCEL.in_schema(schema), cancelled)
    listener.subscribe(Channel.LEADER.in_schema(schema), changed)
    for channel in channels_of(chores):
        listener.subscribe(channel.in_schema(schema), waking(channel))
