from collections.abc import Iterator

import pytest

from storage.interleaving.stepped_sessions import Story
from storage.interleaving.table_invariants import sound_at_the_end


@pytest.fixture
def story(dsn: str) -> Iterator[Story]:
    with sound_at_the_end(dsn), Story.on(dsn) as story:
        yield story
