"""A connection string with several hosts: when none of them answers, each has its reason."""

import socket
from collections.abc import Iterator

import pytest

from holdfast.errors import ConnectionFailed
from holdfast.postgres.blocking_database import BlockingDatabase
from holdfast.postgres.database import Database


@pytest.fixture
def two_hosts() -> Iterator[str]:
    """Bound and never listening: no other server answers there meanwhile."""
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        ports = f"{first.getsockname()[1]},{second.getsockname()[1]}"
        yield f"host=127.0.0.1,127.0.0.1 port={ports} dbname=shop connect_timeout=3"


def each_has_its_reason(error: ConnectionFailed, dsn: str) -> bool:
    ports = dsn.split("port=")[1].split(maxsplit=1)[0].split(",")
    reasons = str(error).split("; ")
    return len(reasons) == 2 and all(
        f"127.0.0.1:{port}" in reason and "refused" in reason
        for port, reason in zip(ports, reasons, strict=True)
    )


async def test_the_error_of_a_pool_names_every_host_with_its_reason(two_hosts: str) -> None:
    with pytest.raises(ConnectionFailed) as raised:
        await Database(two_hosts).open()
    assert each_has_its_reason(raised.value, two_hosts), raised.value


def test_so_does_the_error_of_a_blocking_pool(two_hosts: str) -> None:
    with pytest.raises(ConnectionFailed) as raised:
        BlockingDatabase(two_hosts).open()
    assert each_has_its_reason(raised.value, two_hosts), raised.value
