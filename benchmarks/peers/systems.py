"""Every system by the name that a child process is given; imported only by the process that uses it."""

from collections.abc import Callable
from datetime import timedelta

from benchmarks.peers.peer import Peer

KEPT = timedelta(seconds=10)
"""How long finished jobs are kept where pruning is to be seen within minutes."""


def _holdfast() -> Peer:
    from benchmarks.peers.holdfast import Holdfast

    return Holdfast()


def _holdfast_idle() -> Peer:
    from benchmarks.peers.holdfast import Holdfast

    return Holdfast(queues=20)


def _holdfast_soak() -> Peer:
    from benchmarks.peers.holdfast import Holdfast

    return Holdfast(keep=timedelta(seconds=60))


def _holdfast_pruned() -> Peer:
    from benchmarks.peers.holdfast import Holdfast

    return Holdfast(keep=KEPT)


def _pgqueuer() -> Peer:
    from benchmarks.peers.pgqueuer import Pgqueuer

    return Pgqueuer()


def _awa() -> Peer:
    from benchmarks.peers.awa import Awa

    return Awa()


def _procrastinate() -> Peer:
    from benchmarks.peers.procrastinate import Procrastinate

    return Procrastinate()


def _bare() -> Peer:
    from benchmarks.peers.bare import Bare

    return Bare()


def _bare_announced() -> Peer:
    from benchmarks.peers.bare import Bare

    return Bare(is_announced=True)


def _holdfast_flows() -> Peer:
    from benchmarks.flows.holdfast import HoldfastFlows

    return HoldfastFlows()


def _dbos() -> Peer:
    from benchmarks.flows.dbos import Dbos

    return Dbos()


def _absurd() -> Peer:
    from benchmarks.flows.absurd import Absurd

    return Absurd()


SYSTEMS: dict[str, Callable[[], Peer]] = {
    "holdfast": _holdfast,
    "holdfast-idle": _holdfast_idle,
    "holdfast-soak": _holdfast_soak,
    "holdfast-pruned": _holdfast_pruned,
    "pgqueuer": _pgqueuer,
    "awa": _awa,
    "procrastinate": _procrastinate,
    "bare": _bare,
    "bare-announced": _bare_announced,
    "holdfast-flows": _holdfast_flows,
    "dbos": _dbos,
    "absurd": _absurd,
}
PEERS = ("pgqueuer", "awa", "procrastinate")
