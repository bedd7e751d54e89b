from collections.abc import Iterator

import pytest

from storage.interleaving.places import sound_at_the_end
from storage.interleaving.story import Story


@pytest.fixture
def story(dsn: str) -> Iterator[Story]:
    with sound_at_the_end(dsn), Story.on(dsn) as story:
        yield story
