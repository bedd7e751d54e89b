from collections.abc import Iterator

import psycopg
import pytest

from engine.interleaving.places import flaws
from engine.interleaving.story import Story


@pytest.fixture
def story(dsn: str) -> Iterator[Story]:
    """However a story went: every job is in exactly one place at its end, and nothing is left behind."""
    with Story.on(dsn) as story:
        yield story
    with psycopg.connect(dsn) as connection:
        assert flaws(connection) == {}
