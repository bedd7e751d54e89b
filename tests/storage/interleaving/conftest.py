"""Sessions that a test steps through their statements; every invariant holds at the end."""

from collections.abc import Iterator

import pytest

from storage.interleaving.stepped_sessions import Sessions
from storage.interleaving.table_invariants import sound_at_the_end


@pytest.fixture
def sessions(dsn: str) -> Iterator[Sessions]:
    with sound_at_the_end(dsn), Sessions.on(dsn) as sessions:
        yield sessions
