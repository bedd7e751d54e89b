"""A claimed run turns the database's times into the worker's own."""

from datetime import UTC, datetime, timedelta
from time import monotonic
from zoneinfo import ZoneInfo

import pytest
from msgspec import structs

from worker.handler_runs import Run


def nothing() -> None: ...


@pytest.mark.parametrize("zone", ["UTC", "Europe/Oslo"])
def test_a_timeout_is_as_long_as_it_is_also_when_the_servers_clock_is_set_meanwhile(zone: str) -> None:
    # In Oslo the clock goes back from three to two at 01:00 UTC.
    started = datetime(2026, 10, 25, 0, 50, tzinfo=UTC).astimezone(ZoneInfo(zone))
    ends = datetime(2026, 10, 25, 1, 20, tzinfo=UTC).astimezone(ZoneInfo(zone))
    claimed = Run.of(nothing).claimed
    row = structs.replace(
        claimed.row, started_at=started, lasting=30 * 60.0, created_at=started - timedelta(hours=4)
    )
    again = type(claimed)(claimed.worker, claimed.queue, row, claimed.kind)
    assert again.overdue_at - monotonic() == pytest.approx(30 * 60, abs=60)
    assert row.timeout_at == ends.astimezone(UTC)
