from collections.abc import Iterator

import pytest

from engine.interleaving.places import sound_at_the_end
from engine.interleaving.story import Story


@pytest.fixture
def story(dsn: str) -> Iterator[Story]:
    with sound_at_the_end(dsn), Story.on(dsn) as story:
        yield story
